"""From logits to a token: a chain of penalties and cuts, the temperature, and the dice."""

from llm.sampling.chain import Logprob as Logprob
from llm.sampling.chain import Sampler as Sampler
from llm.sampling.settings import Sampling as Sampling
