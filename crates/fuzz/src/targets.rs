//! Every `pub fn fuzz_*` of the workspace.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::mutate::INPUT_BYTES_MAX;

/// A parser, and inputs to begin with.
pub(crate) struct FuzzTarget {
    /// The function's name without `fuzz_`.
    pub(crate) name: &'static str,
    pub(crate) run: fn(&[u8]),
    samples: &'static [&'static [u8]],
    /// Files below `crates/`.
    files: &'static [&'static str],
}

const fn target(
    name: &'static str,
    run: fn(&[u8]),
    samples: &'static [&'static [u8]],
) -> FuzzTarget {
    FuzzTarget {
        name,
        run,
        samples,
        files: &[],
    }
}

impl FuzzTarget {
    const fn files(self, files: &'static [&'static str]) -> Self {
        Self { files, ..self }
    }
}

/// All of them, by name.
pub(crate) const TARGETS: &[FuzzTarget] = &[
    target(
        "answer_head",
        dewar_transfer::fuzz_answer_head,
        &[ANSWER_HEAD],
    ),
    target("authdb", dewar_auth::fuzz_authdb, AUTHDBS),
    target(
        "authorization",
        dewar_sigv4::fuzz_authorization,
        &[AUTHORIZATION],
    ),
    target(
        "authorization_v2",
        dewar_s3::sigv2::fuzz_authorization_v2,
        &[b"AWS AKIAIOSFODNN7EXAMPLE:qgk2+6Sv9/oM7G3qLEjTH1a1l1g="],
    ),
    target("aws_chunked", dewar_s3::payload::fuzz_aws_chunked, CHUNKED),
    target("batch", dewar_kv::embedded::fuzz_batch, &[]).files(&[
        "kv/testdata/batch-v1/full.bin",
        "kv/testdata/batch-v1/small.bin",
    ]),
    target("blob_record", dewar_disks::blob::fuzz_blob_record, &[]),
    target("block", dewar_kv::index::sorted_runs::fuzz_block, &[])
        .files(&["kv/testdata/runs-v1/index/703b18d3d0873369.run"]),
    target("canonical", dewar_sigv4::fuzz_canonical, &[PRESIGNED]),
    target(
        "document",
        dewar_webdav::xml::fuzz_document,
        &[PROPFIND, PROPPATCH],
    ),
    target("epoch", dewar_journal::fuzz_epoch, &[])
        .files(&["journal/testdata/journal-v1/disk0/journal/epoch"]),
    target(
        "failure_text",
        dewar_transfer::fuzz_failure_text,
        &[b"\x05https://h/x?authz=Bearer%20t File exists: Bearer eyJh\r\nx"],
    ),
    target("footer", dewar_kv::index::sorted_runs::fuzz_footer, &[])
        .files(&["kv/testdata/runs-v1/index/703b18d3d0873369.run"]),
    target("iam_policy", dewar_auth::fuzz_iam_policy, IAM_POLICIES),
    target("identity", dewar_disks::pool::fuzz_identity, &[IDENTITY]),
    target(
        "if",
        dewar_webdav::fuzz_if,
        &[b"</a> (<urn:uuid:181d4fae-7d8c-41d0-a765-00a0c91e6bf2> [\"e\"]) (Not <DAV:no-lock>)"],
    ),
    target("journal_file", dewar_journal::fuzz_journal_file, &[]).files(&[
        "journal/testdata/journal-v1/disk0/journal/00000000.log",
        "journal/testdata/journal-v1/disk0/journal/00000001.log",
    ]),
    target("macaroon", dewar_auth::fuzz_macaroon, MACAROONS),
    target("manifest", dewar_kv::index::sorted_runs::fuzz_manifest, &[])
        .files(&["kv/testdata/runs-v1/index/manifest"]),
    target("multipart", dewar_http_front::fuzz_multipart, &[FORM]),
    target(
        "path",
        dewar_webdav::fuzz_path,
        &[b"/data/a%20b//./c%2F../d?x", b"/@tenant/data/%C3%BC/"],
    ),
    target("policy", dewar_s3::form::fuzz_policy, &[POLICY]),
    target("presigned", dewar_s3::sigv4::fuzz_presigned, &[PRESIGNED]),
    target(
        "presigned_v2",
        dewar_s3::sigv2::fuzz_presigned_v2,
        &[PRESIGNED_V2],
    ),
    target(
        "range",
        dewar_http_front::fuzz_range,
        &[
            b"bytes=0-499",
            b"bytes=-500",
            b"bytes=9500-",
            b"bytes=0-9, 5-20,-1",
        ],
    ),
    target(
        "segment_record",
        dewar_disks::segment::fuzz_segment_record,
        &[SEGMENT_WHOLE, SEGMENT_PACKED],
    ),
    target("shard_header", dewar_disks::format::fuzz_shard_header, &[])
        .files(&["disks/testdata/format-v1/object-2+1.shard1"]),
    target("slot", dewar_disks::segment::fuzz_slot, &[SLOT]),
    target("sss", dewar_xrootd::fuzz_sss, SSS),
    target(
        "xrootd_reply",
        dewar_xrootd_proto::fuzz_xrootd_reply,
        &[XROOTD_REPLY],
    ),
    target(
        "xrootd_request",
        dewar_xrootd_proto::fuzz_xrootd_request,
        XROOTD_REQUESTS,
    ),
];

const ANSWER_HEAD: &[u8] =
    b"etag:\"d41d8cd98f00b204e9800998ecf8427e\"\ndigest:adler32=1,md5=1B2M2Y8AsgTpgAmY7PhCfg==\n\
    repr-digest:adler=:AAAAAQ==:\ncontent-range:bytes 0-9/10\nlocation:../x?y\nretry-after:7\n\
    x-amz-checksum-crc32:AAAAAA==\ncontent-length:10\ntransfer-encoding:chunked";

const SSS: &[&[u8]] = &[
    b"0 u:ann g:users n:service N:7 c:1700000000 e:0 k:0123456789abcdef\n",
    b"\x01\0\x04ann\0\x20\0\x0c[192.0.2.7]\0\x07\0\x03xy\0",
    b"sss\0\0\0\x080\0\0\0\0\0\0\0\x07service\0",
];

const AUTHORIZATION: &[u8] = b"AWS4-HMAC-SHA256 \
    Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
    SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
    Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";

const CHUNKED: &[&[u8]] = &[
    b"\x833\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nx-amz-checksum-crc32:sOO8/Q==\r\n\r\n",
    b"\x055;chunk-signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41\r\n\
      hello\r\n0;chunk-signature=00\r\n\r\n",
];

const AUTHDBS: &[&[u8]] = &[
    b"# c\nt common /b/c rl\n= x u ann g atlas\nu ann /b/ann a common\ng atlas /b/at rl \\\n /b/at/in a-d\ns x /b/x lrwidn\n",
    b"u * /b/p rl\nu = /b/@=/ a\nh 192.0.2.7 /b r\n",
];

const MACAROONS: &[&[u8]] = &[
    b"0011location here\n0017identifier some id\n0010cid path:/a/b\n002fsignature 01234567890123456789012345678901\n",
    b"\x02\x01\x04here\x02\x02id\x00\x02\x07path:/a\x00\x00\x06\x2001234567890123456789012345678901",
    b"path:/a/b\nactivity:DOWNLOAD,LIST\nbefore:2026-11-22T12:00:00Z\nip:192.0.2.0/24,::1\nname:ann",
];

const IAM_POLICIES: &[&[u8]] = &[
    br#"{"Version":"2012-10-17","Statement":[{"Sid":"a","Effect":"Allow","Principal":{"AWS":["*","arn:aws:iam::1:user/x"]},
"NotAction":["s3:Get*","s3:PutObject"],"Resource":["arn:aws:s3:::bucket/*","arn:aws:s3::t:bucket/?${aws:username}*b"],
"Condition":{"StringLikeIfExists":{"s3:prefix":["a*","${s3:prefix, 'x'}"]},"IpAddress":{"aws:SourceIp":"10.0.0.0/8"},
"ForAllValues:StringEquals":{"s3:RequestObjectTagKeys":["a"]},"NumericLessThan":{"s3:max-keys":5}}}]}"#,
    br#"{"Statement":{"Effect":"Deny","Action":"*","NotResource":"*","Condition":{"DateLessThan":{"aws:CurrentTime":"2020-01-01T00:00:00Z"},
"ArnLike":{"aws:PrincipalArn":"arn:*:iam::*:user/*"},"Null":{"s3:delimiter":true},"Bool":{"aws:SecureTransport":"false"}}}}"#,
];
const IDENTITY: &[u8] = b"Dewar disk, format 1\ndewar = 00000000000000000000123456789abc\n\
    disk = fffffffffffffffffffffffffffffffe\npool = 3\ncreated = 1760000000123456789\n\
    ";

const SEGMENT_WHOLE: &[u8] =
    b"\x82\0\x81\x87\x05\x01\x07\x83\x01\x01\x1a\0\x01\0\0\x19\x30\x39\x82\
    \x50aaaaaaaaaaaaaaaa\x50bbbbbbbbbbbbbbbb\x80";

const SEGMENT_PACKED: &[u8] = b"\x82\x01\x83\x05\x81\x83\x01\x19\x01\x2c\x02\x81\x09";

const SLOT: &[u8] = b"DSlt\x01\x03\0\0\x05\0\0\0\0\0\0\0abchello";

const XROOTD_REPLY: &[u8] = b"\0\x01\0\0\0\0\0\x1d\0\0\0\x07\0\0\0\0\0\0\0\x001 2 48 1760000000\0\
    \0\x02\x0f\xa5\0\0\0\x09\0\0\0\x05again\0\x03\x0f\xa4\0\0\0\x08\0\0\x04\x46host";

const XROOTD_REQUESTS: &[&[u8]] = &[
    b"\x01\0\x0b\xc2\x01\xa4\x04\x62\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x12/data/x?oss.asize=1\
      \x01\0\x0b\xd1\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\0\0\x01\0\0\x20\0\0\0\0\0\0\0\x10\0",
    b"\x02\0\x0b\xcc\0\0\0\0\x03\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\x0f/f\0\0\0user.a\0\0\0\0\x01b\
      \x02\0\x0b\xc1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x05/a /b",
];

const FORM: &[u8] =
    b"\x07--B\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\na/b\r\n--B\r\n\
    Content-Disposition: form-data; name=\"file\"; filename=\"f.root\"\r\n\
    Content-Type: application/octet-stream\r\n\r\nroot\r\n--B--\r\n";

const PROPFIND: &[u8] =
    b"<D:propfind xmlns:D='DAV:'><D:prop><D:getetag/><x xmlns='urn:x'/></D:prop></D:propfind>";
const PROPPATCH: &[u8] = b"<?xml version='1.0'?><D:propertyupdate xmlns:D='DAV:'><D:set><D:prop>\
    <p:x xmlns:p='urn:&amp;' p:a='1'>&#65;<![CDATA[b]]>&lt;</p:x></D:prop></D:set></D:propertyupdate>";
const POLICY: &[u8] = br#"{"expiration":"2007-12-01T12:00:00.000Z","conditions":[
    {"bucket":"b"},["starts-with","$key","user/"],["content-length-range",0,10]]}"#;

const PRESIGNED: &[u8] = b"/b/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=\
    AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z\
    &X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=\
    aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";

const PRESIGNED_V2: &[u8] = b"AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=1141889120&Signature=\
    vjbyPxybdZaNmGa%2ByT272YEAiv4%3D&response-content-type=text%2Fplain";

/// Inputs to begin with; nothing at all is one of them.
pub(crate) fn samples(target: &FuzzTarget) -> Result<Vec<Vec<u8>>> {
    let mut samples = vec![Vec::new()];
    samples.extend(target.samples.iter().map(|sample| sample.to_vec()));
    for file in target.files {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let mut sample =
            std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        // The beginning of one file and the end of another are where the structure is.
        let end = sample.split_off(sample.len().min(INPUT_BYTES_MAX));
        samples.push(sample);
        samples.extend((!end.is_empty()).then(|| end[end.len().saturating_sub(512)..].to_vec()));
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::{FuzzPlan, run};

    /// A moment of garbage for every parser, in every run of the tests.
    #[test]
    fn every_parser_takes_a_moment_of_garbage() {
        let dir = tempfile::tempdir().expect("a folder");
        for target in TARGETS {
            let limit = std::time::Duration::from_millis(150);
            let plan = FuzzPlan {
                seed: 1,
                limit,
                artifacts: dir.path(),
            };
            let samples = samples(target).expect("samples");
            let passed = run(target.name, target.run, &samples, &plan).expect("runs");
            assert!(passed.is_ok(), "{}: {passed:?}", target.name);
        }
    }

    #[test]
    fn targets_are_in_order_and_named_once() {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        assert!(
            names.is_sorted() && names.windows(2).all(|two| two[0] != two[1]),
            "{names:?}"
        );
    }
}
