"use strict";
// Draws the reference of the public API; requests are tried in the playground.
SwaggerUIBundle({
  url: "/reference/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  docExpansion: "list",
  supportedSubmitMethods: [],
  validatorUrl: null,
});
