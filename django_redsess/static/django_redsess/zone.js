// Tells the site the time zone of this browser in a cookie, if the page shows times in another one. If it can, it then
// loads the page again, once in a tab: something else may delete the cookie each time.
"use strict";
{
  const { cookie: name, shown, reloads } = document.currentScript.dataset;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const cookie = `${name}=${zone}`, isSet = () => document.cookie.split("; ").includes(cookie);
  if (zone && zone !== shown && !isSet()) {
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `${cookie}; path=/; max-age=31536000; samesite=lax${secure}`;
    try {
      if (reloads && isSet() && sessionStorage.getItem(name) !== zone) {
        sessionStorage.setItem(name, zone);
        location.reload();
      }
    } catch (error) { /* The next page is in this zone. */ }
  }
}
