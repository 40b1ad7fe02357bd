// The page of the JSON API: Swagger UI, with the CSRF token of this page, and dark where the browser is.
"use strict";

const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

const { openapi, csrfHeader, csrfToken } = document.getElementById("redsess-api").dataset;
SwaggerUIBundle({
  url: openapi,
  dom_id: "#redsess-api",
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  requestInterceptor: (request) => {
    if (request.method !== "GET") request.headers[csrfHeader] = csrfToken;
    return request;
  },
});
