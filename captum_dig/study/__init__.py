"""Ask people which explanation they find best, without naming the methods.

Takes pictures of the same sentences by several methods; gives a page to rank them on, and a key with the place of each
method. Takes the key and the saved answers; gives mean ranks and tests. The command line comes next.
"""

from captum_dig.study.scores import RankComparison, StudyScore, score_study
from captum_dig.study.sheets import Study, StudyItem, StudyKey, make_study

__all__ = ["RankComparison", "Study", "StudyItem", "StudyKey", "StudyScore", "make_study", "score_study"]
