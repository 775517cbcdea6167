"""How a server's question (elicitation, sampling, roots) reaches a client, in each direction.

Legacy server, legacy client: `server_requests`, with a request to the client, and its answer back.
Legacy server, modern client: `parked_calls`, while the server's call stays open.
Modern server, legacy client: `input_required_loop`, with requests, then the call once more.
Modern server, modern client: `request_state`, with the server's state sealed in one of ours.
"""
