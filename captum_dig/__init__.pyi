# The public names, each once: type checkers read this file, and the package imports from it what is asked for.
from .attribution import (
    DiscretizedIntegratedGradients as DiscretizedIntegratedGradients,
)
from .attribution import (
    LayerDiscretizedIntegratedGradients as LayerDiscretizedIntegratedGradients,
)
from .attribution.convergence import (
    ConvergenceReport as ConvergenceReport,
)
from .attribution.convergence import (
    convergence_report as convergence_report,
)
from .attribution.neuron import NeuronDiscretizedIntegratedGradients as NeuronDiscretizedIntegratedGradients
from .catalogue import Entry as Entry
from .comparison import Comparison as Comparison
from .comparison.comparing import compare as compare
from .errors import (
    CaptumDigError as CaptumDigError,
)
from .errors import (
    MissingExtraError as MissingExtraError,
)
from .errors import (
    ModelError as ModelError,
)
from .errors import (
    PathError as PathError,
)
from .errors import (
    TaskError as TaskError,
)
from .errors import (
    VocabularyError as VocabularyError,
)
from .methods.along_path import PathMethod as PathMethod
from .methods.base import AttributionMethod as AttributionMethod
from .methods.base import Plan as Plan
from .metrics import (
    TokenBatch as TokenBatch,
)
from .metrics import (
    comprehensiveness as comprehensiveness,
)
from .metrics import (
    kendall_tau as kendall_tau,
)
from .metrics import (
    leave_one_out as leave_one_out,
)
from .metrics import (
    log_odds as log_odds,
)
from .metrics import (
    sufficiency as sufficiency,
)
from .metrics import (
    word_approximation_error as word_approximation_error,
)
from .metrics.measures import Measure as Measure
from .models.question import Question as Question
from .paths import (
    EnsemblePath as EnsemblePath,
)
from .paths import (
    MonotonicPath as MonotonicPath,
)
from .paths import (
    PathGenerator as PathGenerator,
)
from .paths import (
    PathPerInput as PathPerInput,
)
from .paths import (
    Polyline as Polyline,
)
from .paths import (
    StaggeredPath as StaggeredPath,
)
from .paths import (
    StraightLine as StraightLine,
)
from .paths import (
    UniformPath as UniformPath,
)
from .paths import (
    upsample as upsample,
)
from .paths.anchors import (
    AnchorSearch as AnchorSearch,
)
from .paths.anchors import (
    Greedy as Greedy,
)
from .paths.anchors import (
    MaxCount as MaxCount,
)
from .paths.anchors import (
    Neighborhood as Neighborhood,
)
from .paths.anchors import (
    RandomAnchor as RandomAnchor,
)
from .paths.anchors import (
    RandomNeighbor as RandomNeighbor,
)
from .quadrature import QuadratureRule as QuadratureRule
from .tasks.base import Task as Task
from .text.explainer import TextExplainer as TextExplainer
from .text.results import TextAttribution as TextAttribution
from .text.settings import ExplanationSettings as ExplanationSettings
from .visualization.formats import Format as Format
from .vocabulary import Vocabulary as Vocabulary
from .vocabulary.readable import word_candidates as word_candidates

__version__: str
