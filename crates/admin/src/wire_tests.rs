//! The JSON of every request and reply of the admin socket, and the record of each request in the
//! audit log. Scripts and other versions of `dewar` rely on both.

use super::*;

/// A request, its record in the audit log, and a reply to it.
struct Sample {
    request: &'static str,
    action: &'static str,
    target: &'static str,
    /// Whether the audit log records it only with `audit.reads`.
    reads: bool,
    reply: &'static str,
}

const fn reads(
    request: &'static str,
    action: &'static str,
    target: &'static str,
    reply: &'static str,
) -> Sample {
    Sample {
        request,
        action,
        target,
        reads: true,
        reply,
    }
}

const fn changes(
    request: &'static str,
    action: &'static str,
    target: &'static str,
    reply: &'static str,
) -> Sample {
    Sample {
        reads: false,
        ..reads(request, action, target, reply)
    }
}

const SAMPLES: &[Sample] = &[
    reads(
        r#"{"status":{}}"#,
        "admin:status",
        "",
        concat!(
            r#"{"status":{"version":"0.9.0","pid":7,"uptime_seconds":60,"zone":1,"#,
            r#""pool":{"name":"main","layout":"4+2","margin":2,"writable":true,"total_bytes":600,"#,
            r#""available_bytes":500,"further":[{"name":"scratch","layout":"1+0","margin":0,"#,
            r#""writable":false,"total_bytes":2,"available_bytes":1}],"#,
            r#""disks":[{"number":1,"path":"/data/d1","pool":"main","state":"draining","detail":"why","#,
            r#""shards_left":3,"bytes_left":4,"id":"ab"},{"number":null,"path":"/data/d2","pool":"","#,
            r#""state":"online","detail":null,"shards_left":null,"bytes_left":null}],"notes":["a note"]},"#,
            r#""ledger":{"counted":"2026-01-01T00:00:00Z","full":2,"lines":[{"failures_left":2,"blobs":1,"#,
            r#""bytes":2,"lacking":0,"objects":null,"proven":null}],"catalog":2,"catalog_lost":0,"#,
            r#""unsettled":false,"journal_only_bytes":5,"freeing_blobs":6,"freeing_bytes":7,"#,
            r#""at_risk":[],"more":false,"found_bad":0},"#,
            r#""repair":{"repaired":1,"laid_out":2,"bytes":3,"failed":4,"waiting":5,"resting":6},"#,
            r#""doors":[{"name":"s3","endpoint":"http://127.0.0.1:9000"}],"#,
            r#""troubles":[{"what":"one","advice":"two"}],"copies":2,"#,
            r#""uploads":{"uploads":3,"bytes":4,"owners":[{"owner":"ann","uploads":3,"bytes":4,"#,
            r#""oldest_seconds":5}],"further_owners":0}}}"#
        ),
    ),
    reads(
        r#"{"disk_list":{}}"#,
        "admin:disk-list",
        "",
        concat!(
            r#"{"disks":[{"number":1,"id":"ab","path":"/data/d1","pool":"main","state":"removed","#,
            r#""shards":1,"bytes":2,"bad_shards":3,"total_bytes":4,"available_bytes":5,"rot_found":6,"#,
            r#""rot_last":"2026-01-01T00:00:00Z","scrubbed":null,"scrub_began":null,"scrub_bytes":7,"#,
            r#""advice":"do it","holds":{"shards":1,"lacking":2,"lacking_bytes":3,"unreadable":4,"#,
            r#""unsettled":true}}]}"#
        ),
    ),
    changes(
        r#"{"disk_decide":{"disk":"3","action":"drain","narrower":true}}"#,
        "admin:disk-decide",
        "3: Drain",
        concat!(
            r#"{"disk_decided":{"action":"drain","number":3,"path":"/data/d3","shards":1,"bytes":2,"#,
            r#""narrower":"3+2"}}"#
        ),
    ),
    changes(
        r#"{"disk_decide":{"disk":"/data/d3","action":"keep","narrower":false}}"#,
        "admin:disk-decide",
        "/data/d3: Keep",
        concat!(
            r#"{"disk_decided":{"action":"keep","number":null,"path":"/data/d3","shards":1,"bytes":2,"#,
            r#""narrower":null}}"#
        ),
    ),
    changes(
        r#"{"disk_add":{"folder":"/data/d7","replaces":"3","pool":"main"}}"#,
        "admin:disk-add",
        "/data/d7",
        concat!(
            r#"{"disk_added":{"number":7,"id":"ab","path":"/data/d7","replaces":"cd","#,
            r#""replaces_number":3,"removed":true,"in_configuration":false,"warnings":["a warning"]}}"#
        ),
    ),
    changes(
        r#"{"disk_remove":{"disk":"3"}}"#,
        "admin:disk-remove",
        "3",
        concat!(
            r#"{"disk_removed":{"number":3,"id":"ab","path":"/data/d3","shards":1,"bytes":2,"#,
            r#""left_behind":true,"short_of":1,"ledger":null}}"#
        ),
    ),
    changes(
        r#"{"disk_readmit":{"disk":"/data/d3"}}"#,
        "admin:disk-readmit",
        "/data/d3",
        concat!(
            r#"{"disk_readmitted":{"number":3,"id":"ab","path":"/data/d3","held":null,"#,
            r#""in_configuration":true,"warnings":[]}}"#
        ),
    ),
    changes(r#"{"scrub":{"disk":null}}"#, "admin:scrub", "", DONE),
    changes(r#"{"scrub":{"disk":"3"}}"#, "admin:scrub", "3", DONE),
    changes(r#"{"fsck_start":{"deep":true}}"#, "admin:fsck", "", DONE),
    reads(
        r#"{"fsck":{}}"#,
        "admin:fsck-status",
        "",
        r#"{"fsck":{"running":true,"blobs_read":9,"ledger":null,"error":"an error"}}"#,
    ),
    reads(
        r#"{"fsck_more":{"page":1}}"#,
        "admin:fsck-status",
        "",
        r#"{"at_risk":{"at_risk":[{"failures_left":-1,"path":"/b/k"}],"more":true}}"#,
    ),
    reads(
        r#"{"scrub_status":{}}"#,
        "admin:scrub-status",
        "",
        concat!(
            r#"{"scrubs":[{"id":"ab","number":1,"path":"/data/d1","readable":true,"began":null,"#,
            r#""ended":null,"shards":1,"bytes":2,"used_bytes":3,"bad":4}]}"#
        ),
    ),
    changes(
        r#"{"identity":{"policy_put":{"holder":{"user":"ann"},"policy":"p","text":"{}"}}}"#,
        "admin:policy-put",
        "p of user ann",
        r#"{"identity":"done"}"#,
    ),
    changes(
        r#"{"identity":{"policy_remove":{"holder":{"group":"lab:atlas"},"policy":"p"}}}"#,
        "admin:policy-remove",
        "p of group lab:atlas",
        r#"{"identity":"done"}"#,
    ),
    reads(
        r#"{"identity":{"policy_list":{"holder":{"role":"reader"}}}}"#,
        "admin:policy-list",
        "role reader",
        r#"{"identity":{"policies":[{"name":"p","text":"{}"},{"name":"q"}]}}"#,
    ),
    reads(
        r#"{"identity":{"explain":{"who":"ann","action":"s3:GetObject","path":"/b/k"}}}"#,
        "admin:policy-explain",
        "s3:GetObject /b/k",
        r#"{"identity":{"decision":{"allowed":true,"reason":"why"}}}"#,
    ),
    changes(
        r#"{"identity":{"group_add":{"name":"atlas"}}}"#,
        "admin:group-add",
        "atlas",
        r#"{"identity":"done"}"#,
    ),
    changes(
        r#"{"identity":{"group_remove":{"name":"atlas"}}}"#,
        "admin:group-remove",
        "atlas",
        r#"{"identity":"done"}"#,
    ),
    reads(
        r#"{"identity":{"group_list":{"tenant":null}}}"#,
        "admin:group-list",
        "",
        r#"{"identity":{"groups":[{"name":"atlas","members":["ann"]}]}}"#,
    ),
    changes(
        r#"{"identity":{"group_own":{"path":"/b/d","group":null}}}"#,
        "admin:group-own",
        "/b/d: nobody",
        r#"{"identity":"done"}"#,
    ),
    reads(
        r#"{"identity":{"group_of":{"path":"/b/d"}}}"#,
        "admin:group-of",
        "/b/d",
        r#"{"identity":{"charged":{"group":"atlas","by":"/b"}}}"#,
    ),
    changes(
        r#"{"identity":{"group_member":{"group":"atlas","user":"ann","member":true}}}"#,
        "admin:group-join",
        "ann and group atlas",
        r#"{"identity":"done"}"#,
    ),
    changes(
        r#"{"identity":{"group_member":{"group":"atlas","user":"ann","member":false}}}"#,
        "admin:group-leave",
        "ann and group atlas",
        r#"{"identity":"done"}"#,
    ),
    changes(
        concat!(
            r#"{"federation":{"issuer_add":{"url":"https://i","audiences":["a"],"keys_url":null,"#,
            r#""origins":["https://o"],"tenant":"lab","base":"/b","users":[["sub","1","ann"]],"#,
            r#""groups":[["g","v","atlas"]],"unreached":true}}}"#
        ),
        "admin:issuer-add",
        "https://i",
        concat!(
            r#"{"federation":{"issuers":[{"url":"https://i","name":"i","audiences":["a"],"base":"/b","#,
            r#""rules":["a rule"],"disabled":false,"keys":2,"fetched":3,"failed":"why"}]}}"#
        ),
    ),
    reads(
        r#"{"federation":{"issuer_list":{}}}"#,
        "admin:issuer-list",
        "",
        concat!(
            r#"{"federation":{"issuers":[{"url":"https://i","name":"i","audiences":[],"rules":[],"#,
            r#""disabled":true,"keys":0}]}}"#
        ),
    ),
    changes(
        r#"{"federation":{"issuer_remove":{"url":"https://i"}}}"#,
        "admin:issuer-remove",
        "https://i",
        r#"{"federation":"done"}"#,
    ),
    changes(
        r#"{"federation":{"issuer_set":{"url":"https://i","disabled":true}}}"#,
        "admin:issuer-disable",
        "https://i",
        r#"{"federation":"done"}"#,
    ),
    changes(
        r#"{"federation":{"issuer_set":{"url":"https://i","disabled":false}}}"#,
        "admin:issuer-enable",
        "https://i",
        r#"{"federation":"done"}"#,
    ),
    reads(
        r#"{"federation":{"token_test":{"token":"a.b.c"}}}"#,
        "admin:issuer-test",
        "",
        concat!(
            r#"{"federation":{"token":{"taken":true,"why":"w","issuer":"https://i","subject":"s","#,
            r#""expires":4,"user":"ann","local":true,"groups":["atlas"],"capabilities":"c","base":"/b","#,
            r#""roles":["r"],"claims":[["sub",["s"]]]}}}"#
        ),
    ),
    changes(
        concat!(
            r#"{"federation":{"role_add":{"name":"reader","issuer":"https://i","claims":[["sub","s"]],"#,
            r#""trust":null,"policy":"{}","max_session":3600,"description":"words"}}}"#
        ),
        "admin:role-add",
        "reader",
        r#"{"federation":{"roles":[{"arn":"a","name":"reader","max_session":3600,"trust":"{}"}]}}"#,
    ),
    reads(
        r#"{"federation":{"role_list":{"tenant":"lab"}}}"#,
        "admin:role-list",
        "",
        r#"{"federation":{"roles":[]}}"#,
    ),
    changes(
        r#"{"federation":{"role_remove":{"name":"reader"}}}"#,
        "admin:role-remove",
        "reader",
        r#"{"federation":"done"}"#,
    ),
    changes(
        r#"{"federation":{"revoke":{"session":"K"}}}"#,
        "admin:session-revoke",
        "session K",
        r#"{"federation":"done"}"#,
    ),
    changes(
        r#"{"federation":{"revoke":{"user":"ann"}}}"#,
        "admin:session-revoke",
        "user ann",
        r#"{"federation":"done"}"#,
    ),
    changes(
        r#"{"federation":{"revoke":{"role":"reader"}}}"#,
        "admin:session-revoke",
        "role reader",
        r#"{"federation":"done"}"#,
    ),
    changes(
        r#"{"federation":{"revoke":{"issuer":"https://i"}}}"#,
        "admin:session-revoke",
        "issuer https://i",
        r#"{"federation":"done"}"#,
    ),
    reads(
        r#"{"lock":{"list":{"path":"/b/d"}}}"#,
        "admin:lock-list",
        "/b/d",
        concat!(
            r#"{"locks":[{"token":"urn:uuid:181d4fae-7d8c-41d0-a765-00a0c91e6bf2","path":"/b/d/f","#,
            r#""principal":"ann","shared":false,"deep":true,"seconds":600}]}"#
        ),
    ),
    changes(
        r#"{"lock":{"break":{"target":"/b/d/f"}}}"#,
        "admin:lock-break",
        "/b/d/f",
        r#"{"locks":[]}"#,
    ),
    reads(
        r#"{"quota":{"list":{}}}"#,
        "admin:quota-list",
        "",
        r#"{"quotas":[{"target":"/b","limits":{},"bytes":1,"objects":2,"state":"ok"}]}"#,
    ),
    reads(
        r#"{"quota":{"show":{"target":"/b"}}}"#,
        "admin:quota-show",
        "/b",
        concat!(
            r#"{"quotas":[{"target":"/b","limits":{"max_bytes":1,"max_objects":2,"soft_bytes":3,"#,
            r#""soft_objects":4},"bytes":1,"objects":2,"state":"full"}]}"#
        ),
    ),
    changes(
        r#"{"quota":{"set":{"target":"user:ann","limits":{"max_bytes":1}}}}"#,
        "admin:quota-set",
        "user:ann",
        r#"{"quotas":[]}"#,
    ),
    changes(
        concat!(
            r#"{"share":{"add":{"path":"/b/k","user":null,"upload":true,"seconds":60,"#,
            r#""endpoint":"https://h"}}}"#
        ),
        "admin:share-add",
        "/b/k",
        concat!(
            r#"{"shares":[{"id":"K","user":"ann","path":"/b/k","upload":true,"created":"c","#,
            r#""expires":"e","over":false,"url":"https://h/b/k"}]}"#
        ),
    ),
    reads(
        r#"{"share":{"list":{}}}"#,
        "admin:share-list",
        "",
        concat!(
            r#"{"shares":[{"id":"K","user":"ann","path":"/b/k","upload":false,"created":"c","#,
            r#""expires":"e","over":true}]}"#
        ),
    ),
    changes(
        r#"{"share":{"revoke":{"id":"K"}}}"#,
        "admin:share-revoke",
        "K",
        DONE,
    ),
    reads(
        r#"{"key_file":{"list":{}}}"#,
        "admin:key-file-list",
        "",
        concat!(
            r#"{"key_file":{"keys":[{"id":"ab","state":"replaced","replaced":"r","sessions_end":"s"},"#,
            r#"{"id":"cd","state":"current"}]}}"#
        ),
    ),
    changes(
        r#"{"key_file":{"rotate":{}}}"#,
        "admin:key-file-rotate",
        "",
        r#"{"key_file":{"keys":[]}}"#,
    ),
    changes(
        r#"{"key_file":{"retire":{"id":"ab","end_sessions":true}}}"#,
        "admin:key-file-retire",
        "ab",
        r#"{"key_file":{"keys":[]}}"#,
    ),
    changes(
        r#"{"key_file":{"export":{"recipients":["age1a","age1b"]}}}"#,
        "admin:key-file-export",
        "age1a age1b",
        r#"{"key_file":{"exported":"text"}}"#,
    ),
    changes(
        r#"{"backup_start":{"target":"/backup","keep":48}}"#,
        "admin:backup",
        "/backup",
        DONE,
    ),
    reads(
        r#"{"backup":{}}"#,
        "admin:backup-status",
        "",
        concat!(
            r#"{"backup":{"running":false,"copied_bytes":5,"taken":{"name":"n","upto":1,"runs":2,"#,
            r#""bytes":3,"copied_runs":4,"copied_bytes":5,"unsealed_bytes":6,"removed":7},"error":null}}"#
        ),
    ),
    changes(
        concat!(
            r#"{"user_add":{"name":"ann","tenant":null,"display_name":"Ann","email":null,"#,
            r#""tenant_admin":true}}"#
        ),
        "admin:user-add",
        "ann",
        concat!(
            r#"{"user":{"name":"ann","id":"0001","account":"0001","arn":"arn","display_name":"Ann","#,
            r#""email":"a@b","tenant_admin":true,"state":"enabled","created":"c"}}"#
        ),
    ),
    reads(
        r#"{"user_list":{"after":"ann"}}"#,
        "admin:user-list",
        "",
        concat!(
            r#"{"users":{"items":[{"name":"bob","id":"0001","account":"0001","arn":"arn","#,
            r#""tenant_admin":false,"state":"disabled","created":"c"}],"next":"bob"}}"#
        ),
    ),
    changes(
        r#"{"user_remove":{"name":"ann"}}"#,
        "admin:user-remove",
        "ann",
        DONE,
    ),
    changes(
        r#"{"user_set":{"name":"ann","state":"disabled"}}"#,
        "admin:user-set",
        "ann: Disabled",
        concat!(
            r#"{"user":{"name":"ann","id":"0001","account":"0001","arn":"arn","tenant_admin":false,"#,
            r#""state":"disabled","created":"c"}}"#
        ),
    ),
    changes(
        r#"{"key_add":{"user":"ann","access_key":null,"secret_key":null}}"#,
        "admin:key-add",
        "a new key of ann",
        r#"{"new_key":{"user":"ann","access_key":"K","secret_key":"S"}}"#,
    ),
    changes(
        r#"{"key_add":{"user":"ann","access_key":"K","secret_key":"S"}}"#,
        "admin:key-add",
        "K of ann",
        r#"{"new_key":{"user":"ann","access_key":"K","secret_key":"S"}}"#,
    ),
    reads(
        r#"{"key_list":{"user":"ann","after":null}}"#,
        "admin:key-list",
        "",
        concat!(
            r#"{"keys":{"items":[{"access_key":"K","user":"ann","state":"enabled","#,
            r#""user_state":"disabled","created":"c"}],"next":null}}"#
        ),
    ),
    changes(
        r#"{"key_remove":{"access_key":"K"}}"#,
        "admin:key-remove",
        "K",
        DONE,
    ),
    changes(
        r#"{"key_set":{"access_key":"K","state":"enabled"}}"#,
        "admin:key-set",
        "K: Enabled",
        concat!(
            r#"{"key":{"access_key":"K","user":"ann","state":"enabled","user_state":"enabled","#,
            r#""created":"c"}}"#
        ),
    ),
    reads(
        r#"{"bucket_list":{"owner":"ann","after":"/a"}}"#,
        "admin:bucket-list",
        "",
        concat!(
            r#"{"buckets":{"items":[{"bucket":"/atlas","owner":"ann","created":"c","versioning":"off","#,
            r#""objects":1,"bytes":2}],"next":"/atlas"}}"#
        ),
    ),
    reads(
        r#"{"bucket_show":{"bucket":"/atlas"}}"#,
        "admin:bucket-show",
        "/atlas",
        BUCKET,
    ),
    changes(
        r#"{"bucket_create":{"bucket":"atlas","owner":"ann","versioning":true}}"#,
        "admin:bucket-create",
        "atlas of ann",
        BUCKET,
    ),
    changes(
        r#"{"bucket_remove":{"bucket":"atlas"}}"#,
        "admin:bucket-remove",
        "atlas",
        DONE,
    ),
    changes(
        r#"{"space":{"add":{"name":"ATLASDATADISK","path":"/atlas/datadisk","max_bytes":5,"group":"prod","vos":["atlas"]}}}"#,
        "admin:space-add",
        "ATLASDATADISK at /atlas/datadisk",
        r#"{"space":{"name":"ATLASDATADISK","path":"/atlas/datadisk","limits":{"max_bytes":5},"bytes":1,"objects":2,"state":"ok","group":"prod","vos":["atlas"]}}"#,
    ),
    changes(
        r#"{"space":{"add":{"name":"s","path":"/b/d","max_bytes":5}}}"#,
        "admin:space-add",
        "s at /b/d",
        r#"{"space":{"name":"s","path":"/b/d","limits":{"max_bytes":5},"bytes":0,"objects":0,"state":"ok","group":null,"vos":[]}}"#,
    ),
    reads(
        r#"{"space":{"list":{}}}"#,
        "admin:space-list",
        "",
        r#"{"spaces":[{"name":"lab:s","path":"/@lab/b/d","limits":{"max_bytes":5},"bytes":5,"objects":1,"state":"full","group":null,"vos":[]}]}"#,
    ),
    changes(
        r#"{"space":{"remove":{"name":"lab:s"}}}"#,
        "admin:space-remove",
        "lab:s",
        DONE,
    ),
    reads(
        r#"{"usage_list":{"by":"bucket","name":"/atlas","after":null}}"#,
        "admin:usage-list",
        "/atlas",
        r#"{"usage":{"items":[{"name":"/atlas","bytes":1,"objects":2}],"next":null}}"#,
    ),
    reads(
        r#"{"usage_list":{"by":"pool","name":null,"after":null}}"#,
        "admin:usage-list",
        "",
        r#"{"usage":{"items":[{"name":"main","bytes":1,"blobs":2,"stored_bytes":3}],"next":null}}"#,
    ),
    reads(
        r#"{"transfer":{"list":{}}}"#,
        "admin:transfer-list",
        "",
        concat!(
            r#"{"transfers":[{"id":7,"state":"active","protocol":"http","direction":"pull","user":"ann@idp","#,
            r#""issuer":"idp","client":"192.0.2.1","path":"/atlas/f","remote_host":"se:443","#,
            r#""remote_path":"/f","bytes":1,"size":2,"since":"2026-01-01T00:00:00Z","job_id":"j"}]}"#
        ),
    ),
    changes(
        r#"{"transfer":{"cancel":{"id":7}}}"#,
        "admin:transfer-cancel",
        "7",
        r#""done""#,
    ),
    reads(
        r#"{"worker":{"list":{}}}"#,
        "admin:worker-list",
        "",
        concat!(
            r#"{"workers":[{"name":"free","state":"idle","steps":7,"errors":0,"last_error":null,"#,
            r#""last_error_at":null,"pending":null}]}"#
        ),
    ),
    changes(
        r#"{"worker":{"pause":{"worker":"repair"}}}"#,
        "admin:worker-pause",
        "repair",
        concat!(
            r#"{"worker":{"name":"repair","state":"paused","steps":1,"errors":2,"last_error":"no disk","#,
            r#""last_error_at":"2026-01-01T00:00:00Z","pending":3}}"#
        ),
    ),
    changes(
        r#"{"worker":{"resume":{"worker":"repair"}}}"#,
        "admin:worker-resume",
        "repair",
        concat!(
            r#"{"worker":{"name":"repair","state":"idle","steps":1,"errors":0,"last_error":null,"#,
            r#""last_error_at":null,"pending":0}}"#
        ),
    ),
];

const BUCKET: &str = concat!(
    r#"{"bucket":{"bucket":"/atlas","owner":"ann","created":"c","versioning":"enabled","objects":1,"#,
    r#""bytes":2,"limits":{"max_bytes":3},"state":"ok","group":null,"encryption":"none","#,
    r#""object_lock":false,"policy":true,"public":false,"lifecycle_rules":1}}"#
);

const DONE: &str = r#""done""#;

#[test]
fn requests_and_replies_are_what_they_always_were() {
    for sample in SAMPLES {
        let request = parse_request(sample.request.as_bytes()).expect(sample.request);
        assert_eq!(
            (
                request.action(),
                &*request.target(),
                request.effect() == Effect::Read
            ),
            (sample.action, sample.target, sample.reads),
            "{}",
            sample.request
        );
        let command = commands().find(|command| is_of(command, sample));
        let repeat = command.expect("in the table").repeat;
        let again = repeat(sample.request, sample.reply).expect(sample.reply);
        assert_eq!(again, (sample.request.to_owned(), sample.reply.to_owned()));
    }
}

fn commands() -> impl Iterator<Item = &'static CommandEntry> {
    COMMANDS.iter().flat_map(|group| group.iter())
}

fn is_of(command: &CommandEntry, sample: &Sample) -> bool {
    command.parse(sample.request.as_bytes()).is_ok()
}

/// A new command needs a sample.
#[test]
fn every_command_has_samples_and_names_of_its_own() {
    for command in commands() {
        let spec = &command.spec;
        let same = commands().filter(|other| other.spec.name == spec.name);
        assert_eq!(same.count(), 1, "{}", spec.name);
        let samples = SAMPLES.iter().filter(|sample| is_of(command, sample));
        let recorded: Vec<_> = samples.map(|sample| sample.action).collect();
        for action in [Some(spec.action), spec.other_action].into_iter().flatten() {
            assert!(recorded.contains(&action), "{}: {action}", spec.name);
            assert!(action.starts_with("admin:"), "{action}");
        }
    }
}
