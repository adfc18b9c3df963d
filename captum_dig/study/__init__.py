"""Ask people which explanation they find best, without telling them whose it is.

Takes the pictures that several methods gave of the same sentences; gives a page on which people rank them, and a key
that says which method stood where. What the page saves comes back as answers, and with the key they become mean ranks
and tests. The command line comes next.
"""

from captum_dig.study.scores import RankComparison, StudyScore, score_study
from captum_dig.study.sheets import Study, StudyItem, StudyKey, make_study

__all__ = ["RankComparison", "Study", "StudyItem", "StudyKey", "StudyScore", "make_study", "score_study"]
