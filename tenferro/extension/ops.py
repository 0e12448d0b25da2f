"""The standard ops, which expansions and derivative rules of extensions emit."""

from tenferro.ops.analytic import *  # noqa: F403  # because the vocabulary is re-exported whole
from tenferro.ops.contraction import *  # noqa: F403  # because the vocabulary is re-exported whole
from tenferro.ops.dynamic import *  # noqa: F403  # because the vocabulary is re-exported whole
from tenferro.ops.elementwise import *  # noqa: F403  # because the vocabulary is re-exported whole
from tenferro.ops.indexing import *  # noqa: F403  # because the vocabulary is re-exported whole
from tenferro.ops.reduction import *  # noqa: F403  # because the vocabulary is re-exported whole
from tenferro.ops.source import *  # noqa: F403  # because the vocabulary is re-exported whole
from tenferro.ops.structural import *  # noqa: F403  # because the vocabulary is re-exported whole
