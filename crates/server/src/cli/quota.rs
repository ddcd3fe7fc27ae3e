//! `dewar quota`.

use clap::{Args, Subcommand};
use dewar_admin::amount;
use dewar_admin::quota::{QuotaInfo, QuotaLimits, QuotaList, QuotaSet, QuotaShow};

use super::admin_request::{CommonArgs, ask, show};
use super::columns::table_or;
use super::exit::CommandResult;
use crate::config::ByteSize;
use crate::engine::OpenEngine;

/// The subcommands about quotas.
#[derive(Debug, Subcommand)]
pub enum QuotaCommand {
    /// List all quotas and their usage
    List(QuotaListArgs),
    /// Show one quota
    Show(TargetArgs),
    /// Set the limits of a target; limits that are not given are removed
    Set(QuotaSetArgs),
    /// Remove all limits of a target
    Remove(TargetArgs),
}

/// All quotas.
#[derive(Debug, Args)]
pub struct QuotaListArgs {
    #[command(flatten)]
    shared: CommonArgs,
}

/// Something that can be limited.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// /BUCKET, /BUCKET/DIRECTORY, /@TENANT/BUCKET, user:NAME, group:NAME or tenant:NAME (tenant: is the
    /// default tenant)
    target: String,
    #[command(flatten)]
    shared: CommonArgs,
}

/// Limits.
#[derive(Debug, Args)]
pub struct QuotaSetArgs {
    /// /BUCKET, /BUCKET/DIRECTORY, /@TENANT/BUCKET, user:NAME, group:NAME or tenant:NAME (tenant: is the
    /// default tenant)
    target: String,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    shared: CommonArgs,
}

/// At least one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(super) struct LimitArgs {
    /// Most bytes, as 500GB or 2TiB: all versions, parts of open uploads, and metadata and documents of buckets beyond 2 KiB each
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bytes: Option<u64>,
    /// Most objects: all versions, delete markers and open uploads
    #[arg(long, value_name = "NUMBER")]
    objects: Option<u64>,
    /// Warn above this size; never refuse
    #[arg(long, value_name = "SIZE", value_parser = size)]
    soft_bytes: Option<u64>,
    /// Warn above this number of objects; never refuse
    #[arg(long, value_name = "NUMBER")]
    soft_objects: Option<u64>,
}

pub(super) fn size(text: &str) -> Result<u64, String> {
    let size = ByteSize::parse(text).ok_or("digits and a unit, as 500GB or 2TiB, are wanted")?;
    Ok(size.0)
}

pub(super) fn quota<O: OpenEngine>(command: QuotaCommand, opener: &O) -> CommandResult {
    let (shared, quotas) = match command {
        QuotaCommand::List(QuotaListArgs { shared }) => {
            let quotas = ask(&shared, opener, QuotaList {})?;
            (shared, quotas)
        }
        QuotaCommand::Show(TargetArgs { target, shared }) => {
            let quotas = ask(&shared, opener, QuotaShow { target })?;
            (shared, quotas)
        }
        QuotaCommand::Remove(TargetArgs { target, shared }) => {
            let limits = QuotaLimits::default();
            let quotas = ask(&shared, opener, QuotaSet { target, limits })?;
            (shared, quotas)
        }
        QuotaCommand::Set(args) => {
            let limits = QuotaLimits {
                max_bytes: args.limits.bytes,
                max_objects: args.limits.objects,
                soft_bytes: args.limits.soft_bytes,
                soft_objects: args.limits.soft_objects,
            };
            let target = args.target;
            let quotas = ask(&args.shared, opener, QuotaSet { target, limits })?;
            (args.shared, quotas)
        }
    };
    show(&*quotas, shared.json, text)
}

fn text(quotas: &[QuotaInfo]) -> String {
    let head = [
        "TARGET",
        "BYTES",
        "BYTES LIMIT",
        "OBJECTS",
        "OBJECTS LIMIT",
        "SOFT LIMIT",
        "STATE",
    ];
    let limit = |limit: Option<u64>, show: fn(u64) -> String| limit.map_or("-".into(), show);
    let rows = quotas.iter().map(|quota| {
        let limits = &quota.limits;
        let soft = [
            limits.soft_bytes.map(amount),
            limits.soft_objects.map(|objects| objects.to_string()),
        ];
        let soft: Vec<String> = soft.into_iter().flatten().collect();
        vec![
            quota.target.clone(),
            amount(quota.bytes),
            limit(limits.max_bytes, amount),
            quota.objects.to_string(),
            limit(limits.max_objects, |objects| objects.to_string()),
            if soft.is_empty() {
                "-".into()
            } else {
                soft.join(", ")
            },
            quota.state.clone(),
        ]
    });
    table_or(&head, &rows.collect::<Vec<_>>(), "no quotas")
}
