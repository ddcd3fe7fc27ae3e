//! The part of `dewar status` about uploads that are not completed yet.

use dewar_admin::amount;
use dewar_admin::status::{OpenUploads, UploadOwner};

use super::columns::table;
use super::status::span;

/// Nothing where there are none.
pub(super) fn text(open: &OpenUploads) -> String {
    if open.uploads == 0 {
        return String::new();
    }
    let row = |owner: &UploadOwner| {
        vec![
            owner.owner.clone(),
            owner.uploads.to_string(),
            amount(owner.bytes),
            owner.oldest_seconds.map_or("-".into(), span),
        ]
    };
    let rows: Vec<_> = open.owners.iter().map(row).collect();
    let head = ["OPEN UPLOADS OF", "UPLOADS", "BYTES", "OLDEST"];
    let mut text = format!("\n{}", table(&head, &rows));
    if open.further_owners > 0 {
        text.push_str(&format!(
            "and {} further owners; {} uploads with {} in all\n",
            open.further_owners,
            open.uploads,
            amount(open.bytes)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_named_with_what_they_hold() {
        assert_eq!(text(&OpenUploads::default()), "");
        let open = OpenUploads {
            uploads: 14,
            bytes: 6_000_000,
            owners: vec![UploadOwner {
                owner: "lab:ann".to_owned(),
                uploads: 3,
                bytes: 5_000_000,
                oldest_seconds: Some(90_000),
            }],
            further_owners: 2,
        };
        let text = text(&open);
        let line = text.lines().nth(2).expect("a line of the owner");
        assert!(line.starts_with("lab:ann"), "{text}");
        assert!(line.contains(&span(90_000)), "{text}");
        assert!(text.contains("and 2 further owners; 14 uploads"), "{text}");
    }
}
