//! Credentials, methods and refusals.

use dewar_http_front::limits::FAILED_LOGINS_PER_USER_MAX;
use dewar_webdav::WebDavConfig;
use serde_json::Value;

use crate::fixture::{fixture, fixture_with, talk};

#[test]
fn a_request_without_credentials_is_asked_for_them() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/file", b"x").await.is(201);
        for (method, path) in [
            ("GET", "/bucket/file"),
            ("GET", "/bucket/absent"),
            ("HEAD", "/bucket/file"),
            ("PUT", "/bucket/file"),
            ("DELETE", "/bucket/file"),
            ("PROPFIND", "/"),
            ("GET", "/"),
            ("MKCOL", "/bucket/dir"),
        ] {
            let request = dewar.request(method, path).header("depth", "0");
            let refused = request.send().await.is(401);
            // Whoever showed a proxy certificate and nothing else reads why it was not enough.
            let words = refused.text();
            let told = words.contains("Client certificates (X.509 proxies, VOMS) are not accepted");
            assert!(told || method == "HEAD", "{words}");
            let ways: Vec<_> = refused.headers.get_all("www-authenticate").iter().collect();
            assert_eq!(ways.len(), 2, "{method} {path}: {ways:?}");
            assert!(
                ways[0].as_bytes().starts_with(b"Bearer ")
                    && ways[1].as_bytes().starts_with(b"Basic ")
            );
        }
        let stranger = |method, path| {
            let request = dewar.request(method, path);
            request.basic("KEY-stranger", "secret of stranger")
        };
        stranger("GET", "/bucket/file").send().await.is(403);
        stranger("PUT", "/bucket/new").send().await.is(403);
        // No bucket has such a name, whoever asks.
        dewar
            .request("GET", "/.well-known/wlcg-tape-rest-api")
            .send()
            .await
            .is(404);
    });
}

#[test]
fn secrets_are_not_accepted_in_the_clear() {
    talk(async {
        let dewar = fixture().await;
        let far = [192, 0, 2, 1];
        let path = "/bucket/";
        let get = |tls| dewar.owner("HEAD", path).from(far, tls).send();
        get(Some("1.3")).await.is(200);
        get(None).await.is(403);
        let token = |tls| {
            let request = dewar.request("HEAD", path).from(far, tls);
            request.header("authorization", "Bearer nonsense").send()
        };
        token(None).await.is(403);
        let refused = token(Some("1.3")).await.is(401);
        let way = refused.header("www-authenticate").expect("a way");
        assert!(way.contains("invalid_token"), "{way}");
        // Nor is a password asked for where others could read it.
        let refused = dewar
            .request("HEAD", path)
            .from(far, None)
            .send()
            .await
            .is(401);
        let ways = refused.headers.get_all("www-authenticate").iter();
        assert_eq!(ways.count(), 1);
    });
}

#[test]
fn failed_logins_are_limited() {
    talk(async {
        let dewar = fixture().await;
        let wrong = || {
            dewar
                .request("GET", "/bucket/")
                .basic("KEY-owner", "guess")
                .send()
        };
        for _ in 0..FAILED_LOGINS_PER_USER_MAX {
            wrong().await.is(401);
        }
        let refused = wrong().await.is(429);
        assert!(refused.header("retry-after").is_some());
        // Not even the right one is looked at now. From elsewhere it is.
        dewar.get("/bucket/").await.is(429);
        let elsewhere = dewar.owner("HEAD", "/bucket/").from([127, 0, 0, 2], None);
        elsewhere.send().await.is(200);
    });
}

#[test]
fn macaroons_come_in_both_forms_and_work_in_header_and_query() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/dir/file", b"content").await.is(201);
        let asked = dewar
            .owner("POST", "/bucket/dir")
            .header("content-type", "application/macaroon-request")
            .body(br#"{"caveats": ["activity:DOWNLOAD,LIST"], "validity": "PT10M"}"#);
        let granted: Value =
            serde_json::from_slice(&asked.send().await.is(200).body).expect("JSON");
        let macaroon = granted["macaroon"].as_str().expect("a macaroon");
        let bearer = format!("Bearer {macaroon}");
        let with = |method, path| dewar.request(method, path).header("authorization", &bearer);
        assert_eq!(
            &with("GET", "/bucket/dir/file").send().await.is(200).body[..],
            b"content"
        );
        with("GET", "/bucket/other").send().await.is(403);
        with("PUT", "/bucket/dir/file")
            .body(b"x")
            .send()
            .await
            .is(403);
        with("DELETE", "/bucket/dir/file").send().await.is(403);
        for query in [
            format!("authz={macaroon}"),
            format!("authz=Bearer%20{macaroon}"),
        ] {
            let target = format!("/bucket/dir/file?{query}");
            dewar.request("GET", &target).send().await.is(200);
        }
        let target = "/.well-known/oauth-authorization-server";
        let metadata = dewar.request("GET", target).send().await.is(200);
        let metadata: Value = serde_json::from_slice(&metadata.body).expect("JSON");
        assert_eq!(
            metadata["token_endpoint"],
            "http://localhost:8080/.oauth2/token"
        );
        let form = b"grant_type=client_credentials&expire_in=60&scope=DOWNLOAD:/bucket/dir";
        let asked = dewar
            .owner("POST", "/.oauth2/token")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form);
        let granted: Value =
            serde_json::from_slice(&asked.send().await.is(200).body).expect("JSON");
        assert_eq!(granted["token_type"], "bearer");
    });
}

#[test]
fn methods_are_known_or_not() {
    talk(async {
        let dewar = fixture().await;
        for target in ["/", "/bucket/absent", "*"] {
            let answer = dewar.request("OPTIONS", target).send().await.is(200);
            assert_eq!(answer.header("dav"), Some("1, 2"));
            assert!(
                answer
                    .header("allow")
                    .expect("methods")
                    .contains("PROPFIND")
            );
        }
        dewar.owner("BREW", "/bucket/").send().await.is(501);
        dewar.owner("TRACE", "/bucket/").send().await.is(405);
        dewar.owner("POST", "/bucket/").send().await.is(405);
    });
}

/// A browser would send its stored password along with the request of any page.
#[test]
fn pages_of_other_services_change_nothing() {
    talk(async {
        let config = WebDavConfig {
            public_urls: vec!["https://storage.example.org/".to_owned()],
            ..WebDavConfig::default()
        };
        let dewar = fixture_with(config).await;
        let put = |origin| {
            dewar
                .owner("PUT", "/bucket/file")
                .header("origin", origin)
                .body(b"x")
        };
        put("https://evil.example.org").send().await.is(403);
        put("null").send().await.is(403);
        dewar.get("/bucket/file").await.is(404);
        put("http://localhost:8080").send().await.is(201);
        // A proxy in front of the server may have another address.
        put("https://storage.example.org").send().await.is(200);
    });
}
