//! `dewar bucket`.

use clap::{Args, Subcommand};
use dewar_admin::amount;
use dewar_admin::buckets::{
    BucketCreate, BucketDetails, BucketList, BucketRemove, BucketShow, BucketSummary,
};

use super::admin_request::{CommonArgs, all_pages, one, remove, show};
use super::columns::{printable, table_or};
use super::exit::CommandResult;
use crate::engine::OpenEngine;

/// The subcommands about buckets.
#[derive(Debug, Subcommand)]
pub enum BucketCommand {
    /// List buckets with their owners and usage
    List(BucketListArgs),
    /// Show a bucket: owner, usage, limits, versioning, encryption and access
    Show(BucketArgs),
    /// Create a bucket that belongs to a user
    Create(BucketCreateArgs),
    /// Remove an empty bucket; uploads in progress in it are given up
    Remove(BucketArgs),
}

/// The buckets to list.
#[derive(Debug, Args)]
pub struct BucketListArgs {
    /// Only the buckets of this user: [TENANT:]NAME
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    #[command(flatten)]
    shared: CommonArgs,
}

/// One bucket.
#[derive(Debug, Args)]
pub struct BucketArgs {
    /// The bucket: NAME or /NAME; of another tenant /@TENANT/NAME
    bucket: String,
    #[command(flatten)]
    shared: CommonArgs,
}

/// A bucket to create.
#[derive(Debug, Args)]
pub struct BucketCreateArgs {
    /// The bucket's name
    bucket: String,
    /// The user who owns it: [TENANT:]NAME
    #[arg(long, value_name = "NAME")]
    owner: String,
    /// Keep replaced and deleted versions
    #[arg(long)]
    versioning: bool,
    #[command(flatten)]
    shared: CommonArgs,
}

pub(super) fn bucket<O: OpenEngine>(command: BucketCommand, opener: &O) -> CommandResult {
    match command {
        BucketCommand::List(BucketListArgs { owner, shared }) => {
            let page = |after| BucketList {
                owner: owner.clone(),
                after,
            };
            let buckets = all_pages(&shared, opener, page)?;
            show(&*buckets, shared.json, list_text)
        }
        BucketCommand::Show(BucketArgs { bucket, shared }) => {
            one(&shared, opener, BucketShow { bucket }, text)
        }
        BucketCommand::Create(args) => {
            let request = BucketCreate {
                bucket: args.bucket,
                owner: args.owner,
                versioning: args.versioning,
            };
            one(&args.shared, opener, request, text)
        }
        BucketCommand::Remove(BucketArgs { bucket, shared }) => {
            let request = BucketRemove {
                bucket: bucket.clone(),
            };
            remove(&shared, opener, request, ("bucket", &bucket))
        }
    }
}

fn list_text(buckets: &[BucketSummary]) -> String {
    let rows: Vec<_> = buckets
        .iter()
        .map(|bucket| {
            vec![
                bucket.bucket.clone(),
                bucket.owner.clone(),
                bucket.objects.to_string(),
                amount(bucket.bytes),
                bucket.versioning.clone(),
                bucket.created.clone(),
            ]
        })
        .collect();
    let head = [
        "BUCKET",
        "OWNER",
        "OBJECTS",
        "BYTES",
        "VERSIONING",
        "CREATED",
    ];
    table_or(&head, &rows, "no buckets")
}

fn text(details: &BucketDetails) -> String {
    let BucketDetails {
        summary, limits, ..
    } = details;
    let limit = |limit: Option<String>| match limit {
        Some(limit) => format!(" of {limit}"),
        None => String::new(),
    };
    let yes = |is_so| if is_so { "yes" } else { "no" }.to_owned();
    let objects = limit(limits.max_objects.map(|objects| objects.to_string()));
    let bytes = limit(limits.max_bytes.map(amount));
    let lines = [
        ("bucket", summary.bucket.clone()),
        ("owner", summary.owner.clone()),
        ("group", details.group.clone().unwrap_or("none".to_owned())),
        ("created", summary.created.clone()),
        ("objects", format!("{}{objects}", summary.objects)),
        ("bytes", format!("{}{bytes}", amount(summary.bytes))),
        ("quota", details.state.clone()),
        ("versioning", summary.versioning.clone()),
        ("object lock", yes(details.object_lock)),
        ("encryption", details.encryption.clone()),
        ("policy", yes(details.policy)),
        ("public", yes(details.public)),
        ("lifecycle", format!("{} rules", details.lifecycle_rules)),
    ];
    let lines = lines.map(|(name, value)| format!("{name:<12} {}\n", printable(&value)));
    lines.concat()
}
