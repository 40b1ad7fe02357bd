/** What a front end does by the types that were generated from the description: `node walk.js <site>`. */

import assert from "node:assert/strict";
import { allSessions, connect } from "./sessions.js";

const [site, username, password, user] = process.argv.slice(2) as [string, string, string, string];

/** A browser as far as it matters here: it keeps cookies. */
class Browser {
  cookies = new Map<string, string>();

  fetch = async (input: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    const request = new Request(input, { ...init, redirect: "manual" });
    request.headers.set("Cookie", [...this.cookies].map((each) => each.join("=")).join("; "));
    const answer = await fetch(request);
    for (const cookie of answer.headers.getSetCookie()) {
      const [, name, value] = cookie.match(/^(\w+)=([^;]*)/)!;
      this.cookies.set(name!, value!);
    }
    return answer;
  };

  token = () => this.cookies.get("csrftoken") ?? "";
}

async function signIn() {
  const browser = new Browser();
  await browser.fetch(`${site}/login/`);
  const body = new URLSearchParams({ username, password, csrfmiddlewaretoken: browser.token() });
  const answer = await browser.fetch(`${site}/login/`, { method: "POST", body });
  assert.equal(answer.status, 302);
  return { browser, api: connect(`${site}/api/v1`, browser.token, browser.fetch) };
}

const { browser, api } = await signIn();
const there = await signIn();

const first = await api.GET("/sessions", { params: { query: { user: [user], limit: 2 } } });
const cursor = first.data?.next_cursor ?? "";
const second = await api.GET("/sessions", { params: { query: { user: [user], limit: 2, cursor } } });
assert.deepEqual([first.data?.sessions.length, second.data?.sessions.length, second.data?.next_cursor], [2, 1, null]);
const ids: string[] = [];
for await (const each of allSessions(api, { user: [user], limit: 1 })) ids.push(each.id);
assert.deepEqual(ids, [...first.data!.sessions, ...second.data!.sessions].map((each) => each.id));

const one = { params: { path: { id: ids[0]! } } };
const { data: shown } = await api.GET("/sessions/{id}", one);
assert.deepEqual([shown?.id, shown?.user_id, shown?.is_current], [ids[0], user, false]);
const path = { id: ids[0]! };
const ended = await api.DELETE("/sessions/{id}", { params: { path, query: { message: "Call us." } } });
assert.equal(ended.response.status, 204);
const gone = await api.GET("/sessions/{id}", one);
assert.equal(gone.error?.status, 404);
assert.match(gone.error?.detail ?? "", /no session/);
const wrong = await api.GET("/me/sessions", { params: { query: { limit: 101 } } });
assert.equal(wrong.error?.status, 422);
assert.match(wrong.error?.detail ?? "", /limit/);

const ofUser = { params: { path: { id: user } } };
const until = new Date(Date.now() + 86_400_000).toISOString();
const blocked = await api.PUT("/users/{id}/block", { ...ofUser, body: { until } });
assert.equal(blocked.data?.ended, 2);
const block = await api.GET("/users/{id}/block", ofUser);
assert.equal(Date.parse(block.data?.until ?? ""), Date.parse(until));
assert.equal((await api.DELETE("/users/{id}/block", ofUser)).response.status, 204);
assert.equal((await api.GET("/users/{id}/block", ofUser)).error?.status, 404);

const { data: past } = await api.GET("/sign-ins", { params: { query: { user: [user] } } });
assert.deepEqual(past?.sign_ins.map((each) => [each.reason, each.message]).sort(), [
  ["kicked", ""],
  ["kicked", ""],
  ["kicked", "Call us."],
]);

await browser.fetch(`${site}/later/`);
const asked = await api.DELETE("/me/sessions");
assert.match(asked.error?.type ?? "", /#password-required$/);
const mistyped = await api.POST("/me/reauthenticate", { body: { password: "wrong" } });
assert.equal(mistyped.error?.status, 403);
assert.equal((await api.POST("/me/reauthenticate", { body: { password } })).response.status, 204);
assert.equal((await api.DELETE("/me/sessions")).data?.ended, 1);
const left = await api.GET("/me/sessions");
assert.deepEqual(left.data?.sessions.map((each) => each.is_current), [true]);
assert.equal((await there.api.GET("/me/sessions")).error?.status, 401);
