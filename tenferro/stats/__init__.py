"""`tenferro.stats`: probability distributions and statistics of samples, with the names of `jax.scipy.stats`.

A distribution is a namespace of functions, such as `stats.norm.logpdf(x, loc=0, scale=1)`. The functions promote and
broadcast like the functions of `tenferro`, and have derivatives of every order in all parameters. A value outside the
support has probability 0. If a parameter is invalid, the result is NaN.

>>> from tenferro import stats
>>> stats.norm.cdf([0.0, 1.0]), stats.gamma.sf(2.0, a=3.0)
(array([0.5       , 0.84134475]), array(0.67667642))
>>> stats.beta
<tnf.stats.beta: logpdf, pdf, cdf, sf, logcdf, logsf, ppf, isf>

Source: scipy.stats for values and parameters; `jax.scipy.stats` for names and signatures.
"""

from tenferro.counterparts import open_namespace
from tenferro.stats.continuous import CONTINUOUS
from tenferro.stats.discrete import DISCRETE
from tenferro.stats.distribution import Distribution
from tenferro.stats.multivariate import Dirichlet, Multinomial, MultivariateNormal
from tenferro.stats.samples import ModeResult, gaussian_kde, mode, rankdata, sem

bernoulli = Distribution("bernoulli", DISCRETE["bernoulli"])
beta = Distribution("beta", CONTINUOUS["beta"])
betabinom = Distribution("betabinom", DISCRETE["betabinom"])
binom = Distribution("binom", DISCRETE["binom"])
cauchy = Distribution("cauchy", CONTINUOUS["cauchy"])
chi2 = Distribution("chi2", CONTINUOUS["chi2"])
dirichlet = Dirichlet()
expon = Distribution("expon", CONTINUOUS["expon"])
gamma = Distribution("gamma", CONTINUOUS["gamma"])
gennorm = Distribution("gennorm", CONTINUOUS["gennorm"])
geom = Distribution("geom", DISCRETE["geom"])
gumbel_l = Distribution("gumbel_l", CONTINUOUS["gumbel_l"])
gumbel_r = Distribution("gumbel_r", CONTINUOUS["gumbel_r"])
laplace = Distribution("laplace", CONTINUOUS["laplace"])
logistic = Distribution("logistic", CONTINUOUS["logistic"])
multinomial = Multinomial()
multivariate_normal = MultivariateNormal()
nbinom = Distribution("nbinom", DISCRETE["nbinom"])
norm = Distribution("norm", CONTINUOUS["norm"])
pareto = Distribution("pareto", CONTINUOUS["pareto"])
poisson = Distribution("poisson", DISCRETE["poisson"])
t = Distribution("t", CONTINUOUS["t"])
truncnorm = Distribution("truncnorm", CONTINUOUS["truncnorm"])
uniform = Distribution("uniform", CONTINUOUS["uniform"])
vonmises = Distribution("vonmises", CONTINUOUS["vonmises"])
wrapcauchy = Distribution("wrapcauchy", CONTINUOUS["wrapcauchy"])

__all__ = [
    "ModeResult", "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma",
    "gaussian_kde", "gennorm", "geom", "gumbel_l", "gumbel_r", "laplace", "logistic", "mode", "multinomial",
    "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "rankdata", "sem", "t", "truncnorm", "uniform",
    "vonmises", "wrapcauchy",
]  # fmt: skip

open_namespace(globals(), __all__, "tnf.stats")
