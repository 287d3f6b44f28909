"""The client of an OpenAI-compatible gateway: one call in, one typed outcome out.

The package itself holds the types alone: `Gateway` stands in `workers.gateway.client`, since the SDK behind it takes
a second to import, which only the process that makes calls should pay.

GatewayError                what a person has to put right
├── GatewayConfigError      a base URL or key that can never work
└── GatewayRequestError     a request outside a run (the model list) that failed

Inside the package, and turned into an `Outcome` before it leaves:

CallFailed                  no HTTP answer that could be read
├── NothingSent             certain: not one byte of the request went out
├── AnswerLost              the request may have been served, its answer did not arrive whole
└── AnswerUnreadable        an answer came, and it is not HTTP, not decodable or far too big
"""

from workers.gateway.outcome import Disposition, Outcome, Request

__all__ = ["Disposition", "Outcome", "Request"]
