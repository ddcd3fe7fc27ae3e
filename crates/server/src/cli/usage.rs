//! `dewar usage`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use clap::Args;
use dewar_admin::amount;
use dewar_admin::usage::{UsageInfo, UsageList, UsageScope};

use super::admin_request::{CommonArgs, all_pages, show};
use super::columns::table_or;
use super::exit::CommandResult;
use crate::engine::OpenEngine;

/// The usage to show.
#[derive(Debug, Args)]
pub struct UsageArgs {
    /// Show users, or only this one: [TENANT:]NAME
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    user: Option<Option<String>>,
    /// Show buckets, or only this one: NAME, /NAME or /@TENANT/NAME
    #[arg(long, value_name = "BUCKET", num_args = 0..=1)]
    bucket: Option<Option<String>>,
    /// Show pools, or only this one
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    pool: Option<Option<String>>,
    #[command(flatten)]
    shared: CommonArgs,
}

/// Usage by what it is counted by: `pools`, `buckets` and `users`.
type UsageReport = BTreeMap<&'static str, Vec<UsageInfo>>;

pub(super) fn usage<O: OpenEngine>(args: UsageArgs, opener: &O) -> CommandResult {
    let all = args.user.is_none() && args.bucket.is_none() && args.pool.is_none();
    let mut report = UsageReport::new();
    for (by, section, selected) in [
        (UsageScope::Pool, "pools", args.pool),
        (UsageScope::Bucket, "buckets", args.bucket),
        (UsageScope::User, "users", args.user),
    ] {
        let Some(name) = selected.or(all.then_some(None)) else {
            continue;
        };
        let page = |after| UsageList {
            by,
            name: name.clone(),
            after,
        };
        let mut usage = all_pages(&args.shared, opener, page)?;
        usage.sort_by_key(|usage| Reverse(usage.bytes));
        report.insert(section, usage);
    }
    show(&report, args.shared.json, text)
}

fn text(report: &UsageReport) -> String {
    let mut parts = Vec::new();
    if let Some(pools) = report.get("pools") {
        let rows: Vec<_> = pools
            .iter()
            .map(|pool| {
                vec![
                    pool.name.clone(),
                    amount(pool.bytes),
                    amount(pool.stored_bytes.unwrap_or(0)),
                    pool.blobs.unwrap_or(0).to_string(),
                ]
            })
            .collect();
        let head = ["POOL", "CONTENT", "ON DISKS", "BLOBS"];
        parts.push(table_or(&head, &rows, "no pools"));
    }
    for (section, title, none) in [
        ("buckets", "BUCKET", "no buckets"),
        ("users", "USER", "no user owns data"),
    ] {
        if let Some(usage) = report.get(section) {
            let row = |usage: &UsageInfo| {
                let objects = usage.objects.unwrap_or(0).to_string();
                vec![usage.name.clone(), amount(usage.bytes), objects]
            };
            let rows: Vec<_> = usage.iter().map(row).collect();
            parts.push(table_or(&[title, "BYTES", "OBJECTS"], &rows, none));
        }
    }
    parts.join("\n")
}
