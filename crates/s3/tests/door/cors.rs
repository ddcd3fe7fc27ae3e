//! Pages of other origins.

use crate::client::TestResponse;
use crate::fixture::{fixture, talk};

const RULES: &str = "<CORSConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
    <CORSRule><AllowedOrigin>https://*.example.org</AllowedOrigin><AllowedMethod>GET</AllowedMethod>\
    <AllowedMethod>PUT</AllowedMethod><AllowedHeader>x-amz-*</AllowedHeader>\
    <ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>60</MaxAgeSeconds></CORSRule>\
    <CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>HEAD</AllowedMethod></CORSRule>\
    </CORSConfiguration>";
const PAGE: &str = "https://www.example.org";

fn allowed(reply: &TestResponse) -> Option<&str> {
    reply.header("access-control-allow-origin")
}

#[test]
fn browsers_are_told_what_pages_may() {
    talk(async {
        let fixture = fixture().await;
        let owner = &fixture.owner;
        owner.put("/bucket/k").body("x").send().await.is(200);
        let none = owner.get("/bucket?cors").send().await;
        none.refused_with(404, "NoSuchCORSConfiguration");
        let ask = |origin: &'static str, method: &'static str| {
            let ask = fixture
                .nobody
                .call("OPTIONS", "/bucket/k")
                .header("origin", origin);
            ask.header("access-control-request-method", method)
        };
        ask(PAGE, "GET")
            .send()
            .await
            .refused_with(403, "AccessForbidden");
        fixture
            .stranger
            .put("/bucket?cors")
            .body(RULES)
            .send()
            .await
            .is(403);
        owner.put("/bucket?cors").body(RULES).send().await.is(200);
        let shown = owner.get("/bucket?cors").send().await.is(200);
        assert_eq!(shown.elements("AllowedMethod"), ["GET", "PUT", "HEAD"]);
        assert_eq!(shown.element("MaxAgeSeconds").as_deref(), Some("60"));

        let yes = ask(PAGE, "PUT");
        let yes = yes.header("access-control-request-headers", "X-Amz-Date, x-amz-acl");
        let yes = yes.send().await.is(200);
        assert_eq!(allowed(&yes), Some(PAGE));
        assert_eq!(yes.header("access-control-allow-methods"), Some("GET, PUT"));
        assert_eq!(
            yes.header("access-control-allow-headers"),
            Some("x-amz-date, x-amz-acl")
        );
        assert_eq!(yes.header("access-control-max-age"), Some("60"));
        let other = ask(PAGE, "PUT").header("access-control-request-headers", "x-other");
        other.send().await.refused_with(403, "AccessForbidden");
        ask(PAGE, "DELETE").send().await.is(403);
        ask("https://evil.org", "GET").send().await.is(403);
        let any = ask("https://evil.org", "HEAD").send().await.is(200);
        assert_eq!(allowed(&any), Some("*"));
        assert_eq!(any.header("access-control-allow-credentials"), None);
        let lost = fixture.nobody.call("OPTIONS", "/bucket/k").send().await;
        lost.refused_with(400, "BadRequest");
        let lost = fixture
            .nobody
            .call("OPTIONS", "/bucket/k")
            .header("origin", PAGE);
        lost.send().await.refused_with(400, "BadRequest");
        let nowhere = fixture
            .nobody
            .call("OPTIONS", "/none/k")
            .header("origin", PAGE);
        let nowhere = nowhere
            .header("access-control-request-method", "GET")
            .send()
            .await;
        nowhere.refused_with(403, "AccessForbidden");

        // With every answer, refusals included; and never a right that the caller does not have.
        let read = owner
            .get("/bucket/k")
            .header("origin", PAGE)
            .send()
            .await
            .is(200);
        assert_eq!(allowed(&read), Some(PAGE));
        assert_eq!(read.header("access-control-expose-headers"), Some("ETag"));
        let denied = fixture
            .nobody
            .get("/bucket/k")
            .header("origin", PAGE)
            .send()
            .await;
        assert_eq!(allowed(&denied.is(403)), Some(PAGE));
        let other = owner.get("/bucket/k").header("origin", "https://evil.org");
        assert_eq!(allowed(&other.send().await.is(200)), None);
        let plain = owner.get("/bucket/k").send().await.is(200);
        assert_eq!(allowed(&plain), None);
        owner.delete("/bucket?cors").send().await.is(204);
        ask(PAGE, "GET").send().await.is(403);
    });
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    talk(async {
        let owner = fixture().await.owner;
        for (bad, code) in [
            (String::new(), "MalformedXML"),
            (RULES.replace("GET", "PATCH"), "InvalidRequest"),
            (RULES.replace("https://*.", "*://*."), "InvalidRequest"),
            (
                RULES.replace("<AllowedOrigin>*</AllowedOrigin>", ""),
                "MalformedXML",
            ),
            (RULES.replace("60", "-1"), "InvalidRequest"),
            (RULES.replace("60", "soon"), "MalformedXML"),
        ] {
            let put = owner.put("/bucket?cors").body(&bad).send().await;
            put.refused_with(400, code);
        }
    });
}
