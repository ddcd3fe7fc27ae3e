//! PROPPATCH.

use std::sync::Arc;

use bytes::Bytes;
use dewar_http_front::Answer;
use dewar_store::file::{AttributeChange, Node};
use dewar_types::ErrorKind;
use http::StatusCode;

use super::lock::{CHANGED, require_locks};
use super::multistatus::{BEGIN, END, whole_answer};
use super::property::{LiveProperty, attribute_of, push_name, push_propstat};
use super::propfind::{check_name, lookup};
use crate::context::RequestContext;
use crate::error::{DavError, Result};
use crate::front::WebDav;
use crate::limits::{PROPERTIES_MAX, PROPPATCH_BYTES_MAX};
use crate::xml::{DAV, XmlElement, XmlName, push_href_element, push_xml_element};

/// A change of a property: its element as XML, or its removal.
type PropertyChange = (XmlName, Option<String>);

pub(super) async fn call(front: &Arc<WebDav>, context: &mut RequestContext) -> Result<Answer> {
    let node = lookup(front, context).await?;
    let document = context.document(PROPPATCH_BYTES_MAX).await?;
    let changes = changes_of(&document)?;
    let is_directory = matches!(node, Node::Directory(_));
    let protected = |name: &XmlName| name.namespace == DAV || LiveProperty::of(name).is_some();
    let Some(object) = context.path.object() else {
        let words = "Permission denied: buckets have no properties that clients set.";
        return Err(DavError::new(StatusCode::FORBIDDEN, words));
    };
    require_locks(front, context, object, CHANGED).await?;
    let mut document = String::from(BEGIN);
    document.push_str("<D:response>");
    push_href_element(&mut document, &context.path.text, is_directory);
    if changes.iter().any(|(name, _)| protected(name)) {
        // All are changed, or none (RFC 4918 section 9.2).
        let (mut refused, mut others) = (String::new(), String::new());
        for (name, _) in &changes {
            match protected(name) {
                true => push_name(&mut refused, name),
                false => push_name(&mut others, name),
            }
        }
        push_propstat(&mut document, &refused, StatusCode::FORBIDDEN);
        if !others.is_empty() {
            push_propstat(&mut document, &others, StatusCode::FAILED_DEPENDENCY);
        }
    } else {
        let mut change = AttributeChange::default();
        for (name, element) in &changes {
            let attribute = attribute_of(name);
            // The last change of a property counts.
            change.set.retain(|(set, _)| *set != attribute);
            change.remove.retain(|removed| *removed != attribute);
            match element {
                Some(element) => change.set.push((attribute, Bytes::from(element.clone()))),
                None => change.remove.push(attribute),
            }
        }
        let changed = front
            .store
            .change_attributes(&context.caller, object, change);
        changed.await.map_err(|error| {
            let full = [ErrorKind::TooLarge];
            DavError::from(error).with_status_for(&full, StatusCode::INSUFFICIENT_STORAGE)
        })?;
        let mut names = String::new();
        for (name, _) in &changes {
            push_name(&mut names, name);
        }
        push_propstat(&mut document, &names, StatusCode::OK);
    }
    document.push_str("</D:response>\n");
    document.push_str(END);
    Ok(whole_answer(document))
}

/// The changes in a document, in their order.
fn changes_of(document: &[u8]) -> Result<Vec<PropertyChange>> {
    let refused = |words: &'static str| DavError::new(StatusCode::BAD_REQUEST, words);
    let root = XmlElement::parse(document)?;
    if !root.name.is(DAV, "propertyupdate") {
        return Err(refused("The document is no propertyupdate."));
    }
    let mut changes = Vec::new();
    for part in root.elements() {
        let sets = part.name.is(DAV, "set");
        if !sets && !part.name.is(DAV, "remove") {
            continue;
        }
        let properties = part.dav("prop");
        let properties = properties.ok_or_else(|| refused("A change has no prop."))?;
        for property in properties.elements() {
            check_name(&property.name)?;
            if changes.len() == PROPERTIES_MAX {
                return Err(refused("The request changes too many properties."));
            }
            let element = sets.then(|| {
                let mut text = String::new();
                push_xml_element(&mut text, property);
                text
            });
            changes.push((property.name.clone(), element));
        }
    }
    match changes.is_empty() {
        true => Err(refused("The document changes no property.")),
        false => Ok(changes),
    }
}
