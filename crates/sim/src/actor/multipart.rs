//! Uploads in parts, from the first to the last call.

use dewar_checksum::AlgorithmSet;
use dewar_env::sim::SimRng;
use dewar_store::api::{
    CompletePart, CompleteRequest, CreateUploadRequest, ExpectedContent, ListedPart,
    UploadPartRequest, VersionAttributes, WriteCondition,
};
use dewar_types::UploadId;

use crate::bench::{OpOutcome, Process};
use crate::content::ObjectContent;

pub(super) async fn upload(process: &Process, rng: &SimRng) {
    let key = process.bench.key(rng);
    let request = CreateUploadRequest {
        encryption: None,
        attributes: VersionAttributes::default(),
        object: process.object(&key),
        checksum: None,
        composite: false,
        acl: None,
    };
    let work = process.store.create_upload(&process.caller, request);
    let OpOutcome::Done(begun) = process.ask(rng, work).await else {
        return;
    };
    let id = begun.id;
    let count = 1 + rng.below(3);
    let mut contents = Vec::new();
    let mut parts = Vec::new();
    for number in 1..=count {
        // Now and then a part is sent again and replaced.
        let times = 1 + u64::from(rng.below(4) == 0);
        let mut last = None;
        for _ in 0..times {
            let content = part(process, rng, number == count);
            match send(process, rng, &key, id, number, &content).await {
                OpOutcome::Done(listed) => last = Some((content, listed)),
                OpOutcome::Refused(error) => {
                    return process
                        .bench
                        .fail(format!("part {number} of {key} was refused: {error:?}"));
                }
                // The number holds what it held.
                OpOutcome::Undone(_) => {}
                // Whether the number holds what it held or what was sent is open.
                OpOutcome::Open(_) => last = None,
            }
        }
        let Some((content, listed)) = last else {
            return abort(process, rng, &key, id).await;
        };
        contents.push(content);
        parts.push(CompletePart {
            number: number as u32,
            etag: listed.etag,
            checksum: None,
        });
    }
    if rng.below(6) == 0 {
        return abort(process, rng, &key, id).await;
    }
    let whole = ObjectContent::joined(&contents);
    let request = CompleteRequest {
        customer_key: None,
        object: process.object(&key),
        upload: id,
        parts,
        size: None,
        checksum: None,
        condition: WriteCondition::default(),
    };
    let what = format!("complete {key} {whole:?}");
    let write = process.bench.model.lock().begin(&key, Some(whole));
    let outcome = process
        .ask(rng, process.store.complete_upload(&process.caller, request))
        .await;
    if let OpOutcome::Refused(error) = &outcome {
        process.bench.fail(format!(
            "{what}: all parts were acknowledged, and yet {error:?}"
        ));
    }
    process.conclude(&what, &[write], &outcome);
}

fn part(process: &Process, rng: &SimRng, last: bool) -> ObjectContent {
    let min = process.bench.plan.engine.part_bytes_min;
    let len = match rng.below(3) {
        0 => min,
        1 => min + rng.below(4000),
        _ => min + rng.below(60_000),
    };
    let len = if last && rng.coin() {
        1 + rng.below(min)
    } else {
        len
    };
    ObjectContent::new(process.bench.number(), len)
}

async fn send(
    process: &Process,
    rng: &SimRng,
    key: &str,
    upload: UploadId,
    number: u64,
    content: &ObjectContent,
) -> OpOutcome<ListedPart> {
    let request = UploadPartRequest {
        customer_key: None,
        object: process.object(key),
        upload,
        number: number as u32,
        size: None,
        want: AlgorithmSet::EMPTY,
        checksum: None,
    };
    let work = async {
        let mut part = process.store.upload_part(&process.caller, request).await?;
        part.write(content.bytes(0, content.len())).await?;
        part.commit(ExpectedContent::default()).await
    };
    let outcome = process.ask(rng, work).await;
    process.conclude(
        &format!("part {number} of {key} {content:?}"),
        &[],
        &outcome,
    );
    outcome
}

async fn abort(process: &Process, rng: &SimRng, key: &str, upload: UploadId) {
    let object = process.object(key);
    let work = process.store.abort_upload(&process.caller, object, upload);
    let outcome = process.ask(rng, work).await;
    process.conclude(&format!("abort {key}"), &[], &outcome);
}
