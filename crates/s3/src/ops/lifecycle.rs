//! A bucket's lifecycle rules.

use dewar_http_front::{Answer, empty_answer, iso_date};
use dewar_store::lifecycle::Lifecycle;
use dewar_store::lifecycle::rules::{
    Expiration, Filter, FilterForm, NoncurrentExpiration, NoncurrentTransition, Rule, Transition,
};
use dewar_types::Timestamp;
use http::StatusCode;
use s3s::dto::{
    BucketLifecycleConfiguration, LifecycleExpiration, LifecycleRule, LifecycleRuleFilter,
};

use super::delete_objects::{document, malformed};
use crate::door::{Door, RequestContext, text_answer};
use crate::error::{Code, Refusal, Result, push_element};

pub(super) async fn get(door: &Door, context: &RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    let found = door
        .store
        .get_bucket_document::<Lifecycle>(&context.caller, &bucket)
        .await?;
    let lifecycle = found.ok_or_else(|| {
        Refusal::new(
            Code::NoSuchLifecycleConfiguration,
            "The lifecycle configuration does not exist",
        )
    })?;
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<LifecycleConfiguration \
         xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
    );
    for rule in &lifecycle.rules {
        push_rule(&mut xml, rule);
    }
    xml.push_str("</LifecycleConfiguration>");
    Ok(text_answer(StatusCode::OK, xml))
}

pub(super) async fn put(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    let bytes = context.document(false).await?;
    let asked: BucketLifecycleConfiguration = document(&bytes)?;
    let rules = asked.rules.into_iter().enumerate();
    let rules = rules.map(|(place, rule)| read_rule(place, rule));
    let lifecycle = Lifecycle {
        rules: rules.collect::<Result<_>>()?,
    };
    let bucket = context.bucket()?;
    door.store
        .set_lifecycle(&context.caller, &bucket, &lifecycle)
        .await?;
    Ok(empty_answer(StatusCode::OK))
}

pub(super) async fn delete(door: &Door, context: &RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    door.store
        .delete_bucket_document::<Lifecycle>(&context.caller, &bucket)
        .await?;
    Ok(empty_answer(StatusCode::NO_CONTENT))
}

fn invalid(message: &'static str) -> Refusal {
    Refusal::new(Code::InvalidArgument, message)
}

/// A number of days or versions.
fn count(number: i32) -> Result<u32> {
    u32::try_from(number).map_err(|_| invalid("A number of days or versions is negative"))
}

fn size(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| invalid("A size is negative"))
}

fn date(date: s3s::dto::Timestamp) -> Result<Timestamp> {
    let nanos = time::OffsetDateTime::from(date).unix_timestamp_nanos();
    let nanos = u64::try_from(nanos).map_err(|_| invalid("A date is not valid"))?;
    Ok(Timestamp(nanos))
}

fn read_rule(place: usize, rule: LifecycleRule) -> Result<Rule> {
    let enabled = match rule.status.as_str() {
        "Enabled" => true,
        "Disabled" => false,
        _ => return Err(malformed()),
    };
    let id = rule.id.filter(|id| !id.is_empty());
    let noncurrent = rule.noncurrent_version_expiration;
    let noncurrent = noncurrent.map(|older| {
        Ok::<_, Refusal>(NoncurrentExpiration {
            days: count(older.noncurrent_days.ok_or_else(malformed)?)?,
            keep: older.newer_noncurrent_versions.map(count).transpose()?,
        })
    });
    let abort = rule.abort_incomplete_multipart_upload;
    let abort = abort.map(|abort| count(abort.days_after_initiation.ok_or_else(malformed)?));
    let transitions = rule.transitions.unwrap_or_default().into_iter().map(|to| {
        if to.days.is_some() == to.date.is_some() {
            return Err(malformed());
        }
        Ok(Transition {
            days: to.days.map(count).transpose()?,
            date: to.date.map(date).transpose()?,
            class: to.storage_class.ok_or_else(malformed)?.as_str().to_owned(),
        })
    });
    let older = rule.noncurrent_version_transitions.unwrap_or_default();
    let older = older.into_iter().map(|to| {
        Ok::<_, Refusal>(NoncurrentTransition {
            days: count(to.noncurrent_days.ok_or_else(malformed)?)?,
            keep: to.newer_noncurrent_versions.map(count).transpose()?,
            class: to.storage_class.ok_or_else(malformed)?.as_str().to_owned(),
        })
    });
    let rule = Rule {
        // S3 makes one up; a place in the document is as good, and stays what it is.
        id: id.unwrap_or_else(|| format!("rule-{}", place + 1)),
        enabled,
        filter: read_filter(rule.prefix, rule.filter)?,
        expiration: rule.expiration.map(read_expiration).transpose()?,
        noncurrent: noncurrent.transpose()?,
        abort_days: abort.transpose()?,
        transitions: transitions.collect::<Result<_>>()?,
        noncurrent_transitions: older.collect::<Result<_>>()?,
    };
    let acts = rule.expiration.is_some()
        || rule.noncurrent.is_some()
        || rule.abort_days.is_some()
        || !rule.transitions.is_empty()
        || !rule.noncurrent_transitions.is_empty();
    if !acts {
        return Err(malformed());
    }
    Ok(rule)
}

fn read_expiration(asked: LifecycleExpiration) -> Result<Expiration> {
    match (asked.days, asked.date, asked.expired_object_delete_marker) {
        (Some(days), None, None) => Ok(Expiration::Days(count(days)?)),
        (None, Some(day), None) => Ok(Expiration::Date(date(day)?)),
        (None, None, Some(on)) => Ok(Expiration::Marker(on)),
        _ => Err(malformed()),
    }
}

fn read_filter(prefix: Option<String>, filter: Option<LifecycleRuleFilter>) -> Result<Filter> {
    let Some(filter) = filter else {
        return Ok(Filter {
            form: FilterForm::Prefix,
            prefix: Some(prefix.ok_or_else(malformed)?),
            ..Filter::default()
        });
    };
    if prefix.is_some() {
        return Err(malformed());
    }
    let mut read = Filter {
        prefix: filter.prefix,
        larger: filter.object_size_greater_than.map(size).transpose()?,
        smaller: filter.object_size_less_than.map(size).transpose()?,
        ..Filter::default()
    };
    let mut tags: Vec<_> = filter.tag.into_iter().collect();
    if let Some(and) = filter.and {
        read.form = FilterForm::And;
        // Both must hold, so one has to begin with the other.
        read.prefix = match (read.prefix, and.prefix) {
            (Some(one), Some(other)) if one.starts_with(&other) => Some(one),
            (Some(one), Some(other)) if other.starts_with(&one) => Some(other),
            (Some(_), Some(_)) => return Err(malformed()),
            (one, other) => one.or(other),
        };
        read.larger = read
            .larger
            .max(and.object_size_greater_than.map(size).transpose()?);
        let smaller = and.object_size_less_than.map(size).transpose()?;
        read.smaller = match (read.smaller, smaller) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        tags.extend(and.tags.unwrap_or_default());
    }
    for tag in tags {
        let key = tag.key.ok_or_else(malformed)?;
        read.tags.push((key, tag.value.unwrap_or_default()));
    }
    let several = usize::from(read.prefix.is_some())
        + usize::from(read.larger.is_some())
        + usize::from(read.smaller.is_some())
        + read.tags.len();
    if several > 1 {
        // So it is shown, and so it should have been written.
        read.form = FilterForm::And;
    }
    Ok(read)
}

fn push_filter(xml: &mut String, filter: &Filter) {
    let prefix = |xml: &mut String| {
        if let Some(prefix) = &filter.prefix {
            push_element(xml, "Prefix", prefix);
        }
    };
    if filter.form == FilterForm::Prefix {
        return prefix(xml);
    }
    xml.push_str("<Filter>");
    if filter.form == FilterForm::And {
        xml.push_str("<And>");
    }
    prefix(xml);
    for (key, value) in &filter.tags {
        xml.push_str("<Tag>");
        push_element(xml, "Key", key);
        push_element(xml, "Value", value);
        xml.push_str("</Tag>");
    }
    if let Some(size) = filter.larger {
        push_element(xml, "ObjectSizeGreaterThan", &size.to_string());
    }
    if let Some(size) = filter.smaller {
        push_element(xml, "ObjectSizeLessThan", &size.to_string());
    }
    if filter.form == FilterForm::And {
        xml.push_str("</And>");
    }
    xml.push_str("</Filter>");
}

fn push_rule(xml: &mut String, rule: &Rule) {
    xml.push_str("<Rule>");
    push_element(xml, "ID", &rule.id);
    push_filter(xml, &rule.filter);
    push_element(
        xml,
        "Status",
        if rule.enabled { "Enabled" } else { "Disabled" },
    );
    if let Some(expiration) = rule.expiration {
        xml.push_str("<Expiration>");
        match expiration {
            Expiration::Days(days) => push_element(xml, "Days", &days.to_string()),
            Expiration::Date(date) => push_element(xml, "Date", &iso_date(date)),
            Expiration::Marker(on) => {
                push_element(xml, "ExpiredObjectDeleteMarker", &on.to_string());
            }
        }
        xml.push_str("</Expiration>");
    }
    for to in &rule.transitions {
        xml.push_str("<Transition>");
        if let Some(days) = to.days {
            push_element(xml, "Days", &days.to_string());
        }
        if let Some(date) = to.date {
            push_element(xml, "Date", &iso_date(date));
        }
        push_element(xml, "StorageClass", &to.class);
        xml.push_str("</Transition>");
    }
    let keep = |xml: &mut String, keep: Option<u32>| {
        if let Some(keep) = keep {
            push_element(xml, "NewerNoncurrentVersions", &keep.to_string());
        }
    };
    for to in &rule.noncurrent_transitions {
        xml.push_str("<NoncurrentVersionTransition>");
        push_element(xml, "NoncurrentDays", &to.days.to_string());
        keep(xml, to.keep);
        push_element(xml, "StorageClass", &to.class);
        xml.push_str("</NoncurrentVersionTransition>");
    }
    if let Some(older) = rule.noncurrent {
        xml.push_str("<NoncurrentVersionExpiration>");
        push_element(xml, "NoncurrentDays", &older.days.to_string());
        keep(xml, older.keep);
        xml.push_str("</NoncurrentVersionExpiration>");
    }
    if let Some(days) = rule.abort_days {
        xml.push_str("<AbortIncompleteMultipartUpload>");
        push_element(xml, "DaysAfterInitiation", &days.to_string());
        xml.push_str("</AbortIncompleteMultipartUpload>");
    }
    xml.push_str("</Rule>");
}
