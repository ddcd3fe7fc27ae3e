//! Buckets and listings.

use crate::client::{TestClient, TestResponse};
use crate::fixture::{fixture, talk};

async fn fill(client: &TestClient, keys: &[&str]) {
    for key in keys {
        client
            .put(&format!("/bucket/{key}"))
            .body("x")
            .send()
            .await
            .is(200);
    }
}

fn keys(reply: &TestResponse) -> Vec<String> {
    reply.elements("Key")
}

fn prefixes(reply: &TestResponse) -> Vec<String> {
    reply
        .elements("CommonPrefixes")
        .iter()
        .map(|part| part.replace("<Prefix>", "").replace("</Prefix>", ""))
        .collect()
}

#[test]
fn buckets_live_and_die() {
    talk(async {
        let fixture = fixture().await;
        let client = &fixture.owner;
        client
            .put("/bucket")
            .send()
            .await
            .refused_with(409, "BucketAlreadyOwnedByYou");
        fixture
            .stranger
            .put("/bucket")
            .send()
            .await
            .refused_with(409, "BucketAlreadyExists");
        client.put("/second").send().await.is(200);
        let list = client.get("/").send().await.is(200);
        assert_eq!(list.elements("Name"), ["bucket", "second"]);
        assert!(list.element("CreationDate").expect("a date").ends_with('Z'));
        let one = client.get("/?max-buckets=1").send().await.is(200);
        assert_eq!(one.elements("Name"), ["bucket"]);
        let token = one.element("ContinuationToken").expect("more");
        let rest = client
            .get(&format!("/?continuation-token={token}"))
            .send()
            .await
            .is(200);
        assert_eq!(rest.elements("Name"), ["second"]);
        let some = client.get("/?prefix=se").send().await.is(200);
        assert_eq!(some.elements("Name"), ["second"]);
        assert!(
            fixture
                .stranger
                .get("/")
                .send()
                .await
                .is(200)
                .elements("Name")
                .is_empty()
        );

        let head = client.head("/bucket").send().await.is(200);
        assert_eq!(head.header("x-amz-bucket-region"), Some("eu-dewar-1"));
        client.head("/none").send().await.is(404);
        fixture.stranger.head("/bucket").send().await.is(403);
        let place = client.get("/bucket?location").send().await.is(200);
        assert!(
            place.text().contains(">eu-dewar-1</LocationConstraint>"),
            "{}",
            place.text()
        );

        fill(client, &["k"]).await;
        client
            .delete("/bucket")
            .send()
            .await
            .refused_with(409, "BucketNotEmpty");
        client.delete("/bucket/k").send().await.is(204);
        client.delete("/bucket").send().await.is(204);
        client
            .delete("/bucket")
            .send()
            .await
            .refused_with(404, "NoSuchBucket");
        client
            .get("/bucket/k")
            .send()
            .await
            .refused_with(404, "NoSuchBucket");
    });
}

#[test]
fn buckets_are_made_where_they_are_wanted() {
    talk(async {
        let client = fixture().await.owner;
        let configured = |place: &str| {
            format!(
                "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 <LocationConstraint>{place}</LocationConstraint></CreateBucketConfiguration>"
            )
        };
        client
            .put("/here")
            .body(configured("eu-dewar-1"))
            .send()
            .await
            .is(200);
        let tagged = "<CreateBucketConfiguration><Tags><Tag><Key>team</Key><Value>a b</Value></Tag></Tags>\
                      </CreateBucketConfiguration>";
        client.put("/tagged").body(tagged).send().await.is(200);
        let tags = client.get("/tagged?tagging").send().await.is(200);
        assert_eq!(tags.elements("Value"), ["a b"]);
        let twice = tagged.replace(
            "</Tags>",
            "<Tag><Key>team</Key><Value>c</Value></Tag></Tags>",
        );
        let twice = client.put("/twice").body(twice).send().await;
        twice.refused_with(400, "InvalidTag");
        let there = client.put("/there").body(configured("mars-1")).send().await;
        there.refused_with(400, "InvalidLocationConstraint");
        client
            .put("/Bad_Name")
            .send()
            .await
            .refused_with(400, "InvalidBucketName");
        let locked = client
            .put("/locked")
            .header("x-amz-bucket-object-lock-enabled", "true");
        locked.send().await.is(200);
    });
}

#[test]
fn keys_come_in_byte_order_with_any_delimiter() {
    talk(async {
        let client = fixture().await.owner;
        fill(&client, &["b/c", "b-a", "b", "b/", "a", "%C3%BC", "b/d/e"]).await;
        for target in ["/bucket", "/bucket?list-type=2"] {
            let all = client.get(target).send().await.is(200);
            assert_eq!(keys(&all), ["a", "b", "b-a", "b/", "b/c", "b/d/e", "ü"]);
            assert_eq!(all.element("IsTruncated").as_deref(), Some("false"));
            assert_eq!(all.header("x-amz-bucket-region"), Some("eu-dewar-1"));
        }
        let top = client
            .get("/bucket?list-type=2&delimiter=/")
            .send()
            .await
            .is(200);
        assert_eq!(keys(&top), ["a", "b", "b-a", "ü"]);
        assert_eq!(prefixes(&top), ["b/"]);
        assert_eq!(top.element("KeyCount").as_deref(), Some("5"));
        let inner = client
            .get("/bucket?delimiter=/&prefix=b/")
            .send()
            .await
            .is(200);
        assert_eq!(keys(&inner), ["b/", "b/c"]);
        assert_eq!(prefixes(&inner), ["b/d/"]);
        let odd = client
            .get("/bucket?delimiter=-a&prefix=b")
            .send()
            .await
            .is(200);
        assert_eq!(prefixes(&odd), ["b-a"]);
        let encoded = client
            .get("/bucket?encoding-type=url&prefix=%C3%BC")
            .send()
            .await
            .is(200);
        assert_eq!(keys(&encoded), ["%C3%BC"]);
        assert_eq!(encoded.element("EncodingType").as_deref(), Some("url"));
        let owned = client
            .get("/bucket?list-type=2&fetch-owner=true")
            .send()
            .await
            .is(200);
        assert_eq!(owned.elements("Owner").len(), 7);
        assert!(top.elements("Owner").is_empty());
    });
}

#[test]
fn pages_join_to_the_whole() {
    talk(async {
        let client = fixture().await.owner;
        let all = ["a", "b/1", "b/2", "c", "d/1", "e&<"];
        let names: Vec<_> = all
            .iter()
            .map(|k| k.replace('&', "%26").replace('<', "%3C"))
            .collect();
        fill(
            &client,
            &names.iter().map(String::as_str).collect::<Vec<_>>(),
        )
        .await;
        for max in 1..4 {
            let (mut found, mut token) = (Vec::new(), None::<String>);
            loop {
                let from = token
                    .map(|t| format!("&continuation-token={t}"))
                    .unwrap_or_default();
                let target = format!("/bucket?list-type=2&delimiter=/&max-keys={max}{from}");
                let page = client.get(&target).send().await.is(200);
                found.extend(keys(&page));
                found.extend(prefixes(&page));
                assert!(keys(&page).len() + prefixes(&page).len() <= max);
                token = page.element("NextContinuationToken");
                if token.is_none() {
                    break;
                }
            }
            found.sort();
            assert_eq!(found, ["a", "b/", "c", "d/", "e&amp;&lt;"]);
        }
        let page = client.get("/bucket?max-keys=2").send().await.is(200);
        assert_eq!(page.element("NextMarker").as_deref(), Some("b/1"));
        let page = client
            .get("/bucket?marker=b/1&max-keys=2")
            .send()
            .await
            .is(200);
        assert_eq!(keys(&page), ["b/2", "c"]);
        let page = client
            .get("/bucket?list-type=2&start-after=c")
            .send()
            .await
            .is(200);
        assert_eq!(keys(&page), ["d/1", "e&amp;&lt;"]);
        let none = client.get("/bucket?max-keys=0").send().await.is(200);
        assert!(keys(&none).is_empty());
        assert_eq!(none.element("IsTruncated").as_deref(), Some("false"));
        for bad in ["max-keys=-1", "max-keys=x", "encoding-type=base64"] {
            client
                .get(&format!("/bucket?{bad}"))
                .send()
                .await
                .refused_with(400, "InvalidArgument");
        }
        let token = client
            .get("/bucket?list-type=2&continuation-token=zzz")
            .send()
            .await;
        token.refused_with(400, "InvalidArgument");
    });
}

#[test]
fn both_addressing_styles_lead_to_the_same_bucket() {
    talk(async {
        let client = fixture().await.owner;
        let host = "bucket.s3.example.org";
        client
            .put("/k")
            .header("host", host)
            .body("virtual")
            .send()
            .await
            .is(200);
        assert_eq!(client.get("/bucket/k").send().await.is(200).body, "virtual");
        let list = client
            .get("/")
            .header("host", "bucket.s3.example.org:9000")
            .send()
            .await;
        assert_eq!(keys(&list.is(200)), ["k"]);
        let plain = client
            .get("/")
            .header("host", "s3.example.org")
            .send()
            .await
            .is(200);
        assert_eq!(plain.elements("Name"), ["bucket"]);
    });
}

#[test]
fn a_carriage_return_in_a_key_survives_the_document() {
    talk(async {
        let fixture = fixture().await;
        let client = &fixture.owner;
        fill(client, &["a%0D%0Ab%09c"]).await;
        let list = client.get("/bucket?list-type=2").send().await.is(200);
        let text = list.text();
        assert!(text.contains("<Key>a&#13;\nb\tc</Key>"), "{text}");
    });
}

/// A document that has to name such a key is not well-formed either way, but names no other key.
#[test]
fn control_characters_in_a_key_go_out_as_references() {
    talk(async {
        let fixture = fixture().await;
        let client = &fixture.owner;
        fill(client, &["a%00b", "a%01%1F%EF%BF%BE"]).await;
        for list in ["list-type=2", "prefix=a%01", "versions"] {
            let reply = client.get(&format!("/bucket?{list}")).send().await.is(200);
            let text = reply.text();
            assert!(text.contains("<Key>a&#1;&#31;"), "{text}");
            assert_eq!(text.contains("<Key>a&#0;b</Key>"), !list.contains("prefix"));
            assert_eq!(
                text.contains("<Prefix>a&#1;</Prefix>"),
                list.contains("prefix")
            );
            assert!(
                text.bytes().all(|byte| byte == b'\n' || byte >= b' '),
                "{text:?}"
            );
            assert!(!text.contains('\u{fffd}'), "{text}");
            let encoded = client.get(&format!("/bucket?{list}&encoding-type=url"));
            let encoded = encoded.send().await.is(200);
            assert!(encoded.text().contains("<Key>a%01%1F%EF%BF%BE</Key>"));
        }
    });
}

#[test]
fn what_clients_of_ceph_ask_for_is_answered() {
    talk(async {
        let fixture = fixture().await;
        let client = &fixture.owner;
        fill(client, &["a/1", "a/2", "b"]).await;
        let head = client.head("/bucket?read-stats=true").send().await.is(200);
        assert_eq!(head.header("x-rgw-object-count"), Some("3"));
        assert!(head.header("x-rgw-bytes-used").is_some());
        let plain = client.head("/bucket").send().await.is(200);
        assert_eq!(plain.header("x-rgw-object-count"), None);
        let stranger = fixture.stranger.head("/bucket?read-stats=true");
        stranger.send().await.is(403);
        let list = client.get("/bucket?allow-unordered=true").send().await;
        assert_eq!(keys(&list.is(200)), ["a/1", "a/2", "b"]);
        let both = client.get("/bucket?allow-unordered=true&delimiter=/");
        both.send().await.refused_with(400, "InvalidArgument");
        let torrent = client.get("/bucket/b?torrent").send().await;
        torrent.refused_with(404, "NoSuchKey");
    });
}

#[test]
fn an_empty_token_begins_at_the_beginning() {
    talk(async {
        let client = fixture().await.owner;
        fill(&client, &["a", "b"]).await;
        let list = client.get("/bucket?list-type=2&continuation-token=");
        let list = list.send().await.is(200);
        assert_eq!(list.element("ContinuationToken").as_deref(), Some(""));
        assert_eq!(keys(&list), ["a", "b"]);
        // Where a form's redirect leads to the bucket itself, what was appended means nothing.
        let list = client.get("/bucket?bucket=bucket&key=a&etag=%22x%22");
        assert_eq!(keys(&list.send().await.is(200)), ["a", "b"]);
    });
}
