//! The command line of `dewar bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::plan::{Mix, Step, Suite, Workload};
use super::root::RootArgs;
use super::size::ByteSize;
use crate::s3::PayloadMode;

/// The subcommands of `dewar bench`.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Load one or several S3 endpoints, and report throughput and cost
    S3(Box<S3Args>),
    /// Load one or several XRootD servers, and report throughput and cost
    Root(Box<RootArgs>),
}

/// `dewar bench s3 …`.
#[derive(Clone, Debug, Args)]
pub struct S3Args {
    #[command(flatten)]
    pub(super) targets: TargetArgs,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The targets of the load.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Targets")]
pub(super) struct TargetArgs {
    /// An endpoint, as URL or NAME=URL. Each is a target of its own, compared with the first;
    /// endpoints of the same name are gateways of one target
    #[arg(long, value_name = "[NAME=]URL")]
    pub(super) endpoint: Vec<String>,
    /// A ready file of `dewar serve` or `dewar demo`: endpoint, keys, bucket and process in one
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(super) ready_file: Vec<String>,
    /// A TOML file with one `[[target]]` each: name, endpoint or endpoints, access_key,
    /// secret_key_file, session_token_file, bearer_file, anonymous, bucket, region, pids, children,
    /// insecure, ca
    #[arg(long, value_name = "FILE")]
    pub(super) target: Vec<PathBuf>,
    /// Access key of --endpoint
    #[arg(long, value_name = "ID", env = "AWS_ACCESS_KEY_ID")]
    pub(super) access_key: Option<String>,
    /// File with the secret key of --endpoint; without it the variable AWS_SECRET_ACCESS_KEY
    #[arg(long, value_name = "FILE")]
    pub(super) secret_key_file: Option<PathBuf>,
    /// Bucket to work in [default: the ready file's, or "bench"]
    #[arg(long, value_name = "NAME")]
    pub(super) bucket: Option<String>,
    /// Create the bucket if there is none
    #[arg(long)]
    pub(super) create_bucket: bool,
    /// Region of the signatures [default: the ready file's, or "us-east-1"]
    #[arg(long, value_name = "NAME")]
    pub(super) region: Option<String>,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca")]
    pub(super) insecure: bool,
    /// Accept the certificates of the authorities in this PEM file only
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// A process of the server, to account its CPU and memory
    #[arg(long, value_name = "[NAME=]PID")]
    pub(super) server_pid: Vec<String>,
    /// Account the descendants of the server's processes as well
    #[arg(long)]
    pub(super) server_children: bool,
}

/// How to load them.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadArgs {
    /// The workloads: put, get, range, head, list, delete, multipart, mixed
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "put,get,delete"
    )]
    pub(super) workloads: Vec<Workload>,
    /// Sizes of the objects: 4k is 4,096 bytes, 4kb is 4,000
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "4k,1m,10m"
    )]
    pub(super) sizes: Vec<ByteSize>,
    /// Connections, each with one request at a time
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,16"
    )]
    pub(super) concurrency: Vec<u32>,
    /// Steps in place of the three lists, each WORKLOAD:SIZE:CONCURRENCY:REQUESTS[:OBJECTS];
    /// REQUESTS may be a time as in 30s
    #[allow(rustdoc::broken_intra_doc_links, reason = "[:OBJECTS] is no link")]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) steps: Vec<Step>,
    /// Ready-made steps
    #[arg(long, value_name = "NAME")]
    pub(super) suite: Option<Suite>,
    /// Objects written by put, multipart and delete steps, and read by the others [default: 1 GB,
    /// but 16 to 5,000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) objects: Option<u64>,
    /// Requests of get, range, head, list and mixed steps [default: by size]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) requests: Option<u64>,
    /// Seconds a step lasts, in place of a number of requests
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(super) duration: Option<f64>,
    /// Seconds of the same load before each step that do not count (not before delete)
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    pub(super) warmup: f64,
    /// Seconds between the last answer and the reading of the server's CPU, for work that it puts
    /// off
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    pub(super) settle: f64,
    /// The number of repetitions; targets take turns within each step, in alternating order
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) repeat: u32,
    /// The way in which the signature covers bodies
    #[arg(long, value_enum, default_value_t = PayloadMode::Unsigned)]
    pub(super) payload_mode: PayloadMode,
    /// Bytes of a part of a multipart upload
    #[arg(long, value_name = "SIZE", default_value = "10mb", value_parser = positive_size)]
    pub(super) part_size: ByteSize,
    /// Bytes of a range
    #[arg(long, value_name = "SIZE", default_value = "8k", value_parser = positive_size)]
    pub(super) range_size: ByteSize,
    /// Keys of a page of a listing
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) page_keys: u32,
    /// Weights of the mixed workload
    #[arg(
        long,
        value_name = "VERB=WEIGHT,…",
        default_value = "get=70,put=20,head=5,delete=5"
    )]
    pub(super) mix: Mix,
    /// Compare every byte and every key received with what was written
    #[arg(long)]
    pub(super) verify: bool,
    /// Seconds a request may take
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = positive_seconds)]
    pub(super) deadline: f64,
    /// Errors after which a step is given up
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(super) errors_max: u64,
    /// Run this by sh beside each step, only while it is measured, and terminate it then
    #[arg(long, value_name = "COMMAND")]
    pub(super) beside: Option<String>,
    /// The prefix of the keys
    #[arg(long, value_name = "TEXT", default_value = "dewar-bench")]
    pub(super) prefix: String,
    /// Leave the objects of the last steps in the bucket
    #[arg(long)]
    pub(super) keep: bool,
}

/// The output of the results.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Write every run of every step as CSV
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Write everything as JSON (docs/bench.md describes it)
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write plots as SVG into this directory
    #[arg(long, value_name = "DIR")]
    pub(super) plot: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=1e9).contains(&seconds) => Ok(seconds),
        _ => Err(format!("{text:?} is no time in seconds")),
    }
}

fn positive_seconds(text: &str) -> Result<f64, String> {
    seconds(text).and_then(|s| {
        if s > 0.0 {
            Ok(s)
        } else {
            Err("must be above 0".to_owned())
        }
    })
}

fn positive_size(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>() {
        Ok(ByteSize(0)) => Err("must be above 0".to_owned()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}
