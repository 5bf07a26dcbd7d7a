"""Usage exports of providers, which bills are compared with."""
