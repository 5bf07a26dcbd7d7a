"""Upstreams that want more than a key: AWS Bedrock, Google Vertex AI, Azure with Entra ID.

Built from what the providers publish, and apart from the gateway: signatures are computed here from
Amazon's description of them, tokens are handed out and remembered here.

| Wire | Begins at | Who may ask |
|------|-----------|-------------|
| Bedrock, invoke   | `/model/ID/invoke`, `…/invoke-with-response-stream` | signed, or bearer |
| Bedrock, converse | `/model/ID/converse`, `/model/ID/converse-stream` | the same |
| Bedrock, models   | `GET /foundation-models` | the same |
| Vertex AI, gemini | `PREFIX/google/models/ID:generateContent`, … | a token |
| Vertex AI, claude | `PREFIX/anthropic/models/ID:rawPredict`, … | a token |
| Vertex AI, models | `GET /v1beta1/publishers/google/models` | a token |
| Azure OpenAI v1   | `/openai/v1/chat/completions` | `api-key`, or a token |
| Google's tokens   | `POST /token` | an assertion, signed with the key of `GET /_sim/google-key` |
| Entra's tokens    | `POST /TENANT/oauth2/v2.0/token` | a secret, or a federated assertion |

PREFIX is `/v1/projects/PROJECT/locations/REGION/publishers`.

Who is who is foreseeable: the secret of the access key `X` is `secret-of-X`, and one that begins
with ASIA has the session token `token-of-X`; the client `C` of Entra has `secret-of-C` and the
assertion `assertion-of-C`. Directives of a key go by the access key's id, the service account's
address or the client's id; a token's are its owner's.
"""
