//! Sub-resources that clients ask for by default and that Dewar does not keep: each is answered
//! with what S3 says about a bucket or object for which nobody has set it.

use dewar_store::api::{GetRequest, ReadCondition};
use dewar_types::UserId;
use http::StatusCode;

use crate::door::{Answer, Configuration, Door, Exchange, text_answer};
use crate::error::{Refusal, Result};

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
const XMLNS: &str = "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";

/// Of a bucket, which must exist.
pub(super) async fn bucket(
    door: &Door,
    exchange: &Exchange,
    what: Configuration,
) -> Result<Answer> {
    door.store
        .head_bucket(&exchange.caller, &exchange.bucket()?)
        .await?;
    unset(what)
}

fn unset(what: Configuration) -> Result<Answer> {
    let name = match what {
        Configuration::None(code, words) => return Err(Refusal::new(code, words)),
        Configuration::Unset(name) => name,
    };
    let inside = match name {
        "RequestPaymentConfiguration" => "<Payer>BucketOwner</Payer>",
        _ => "",
    };
    let xml = format!("{HEAD}<{name} {XMLNS}>{inside}</{name}>");
    Ok(text_answer(StatusCode::OK, xml))
}

pub(super) async fn bucket_acl(door: &Door, exchange: &Exchange) -> Result<Answer> {
    let bucket = exchange.bucket()?;
    let info = door.store.head_bucket(&exchange.caller, &bucket).await?;
    Ok(acl(info.owner))
}

pub(super) async fn object_acl(door: &Door, exchange: &Exchange) -> Result<Answer> {
    Ok(acl(owner_of_object(door, exchange).await?))
}

async fn owner_of_object(door: &Door, exchange: &Exchange) -> Result<UserId> {
    let request = GetRequest {
        object: exchange.object()?,
        version: exchange.version()?,
        range: None,
        part: None,
        condition: ReadCondition::default(),
        customer_key: None,
    };
    let (info, _) = door.store.head(&exchange.caller, request).await?;
    Ok(info.owner)
}

/// Owners, and they alone, may do everything: that is the whole list.
fn acl(owner: UserId) -> Answer {
    let xml = format!(
        "{HEAD}<AccessControlPolicy {XMLNS}><Owner><ID>{owner}</ID></Owner><AccessControlList>\
         <Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
         xsi:type=\"CanonicalUser\"><ID>{owner}</ID></Grantee><Permission>FULL_CONTROL\
         </Permission></Grant></AccessControlList></AccessControlPolicy>"
    );
    text_answer(StatusCode::OK, xml)
}
