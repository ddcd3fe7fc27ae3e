//! `dewar policy` and `dewar group`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dewar_admin::identity::{
    ChargedGroupInfo, DecisionInfo, GroupAdd, GroupInfo, GroupList, GroupMember, GroupOf, GroupOwn,
    GroupRemove, HolderName, PolicyExplain, PolicyInfo, PolicyList, PolicyPut, PolicyRemove,
};

use super::admin_request::{CommonArgs, ask, done, one, show};
use super::authdb::{self, ImportAuthdbArgs};
use super::columns::table_or;
use super::exit::{CommandError, CommandResult, FAILED};
use crate::engine::OpenEngine;

/// Longest policy that is read from a file, in bytes.
const POLICY_BYTES_MAX: u64 = 64 * 1024;

/// The subcommands about policies.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Put a policy on a user, group or role, in place of the one of that name
    Put(PolicyPutArgs),
    /// List the policies of a user, group or role
    List(PolicyListArgs),
    /// Remove a policy from a user, group or role
    Remove(PolicyRemoveArgs),
    /// Show whether a user may do something, and the reason
    Explain(ExplainArgs),
    /// Read an XRootD authorization database, and show the policies for each line
    ImportAuthdb(ImportAuthdbArgs),
}

/// A user or a group.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct HolderArgs {
    /// The user: [TENANT:]NAME
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The group: [TENANT:]NAME
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// The role: [TENANT:]NAME
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
}

/// A policy to put.
#[derive(Debug, Args)]
pub struct PolicyPutArgs {
    /// The policy's name
    name: String,
    /// A file with the document, in IAM's JSON
    file: PathBuf,
    #[command(flatten)]
    holder: HolderArgs,
    #[command(flatten)]
    shared: CommonArgs,
}

/// The holder of the policies.
#[derive(Debug, Args)]
pub struct PolicyListArgs {
    #[command(flatten)]
    holder: HolderArgs,
    #[command(flatten)]
    shared: CommonArgs,
}

/// A policy to take away.
#[derive(Debug, Args)]
pub struct PolicyRemoveArgs {
    /// The policy's name
    name: String,
    #[command(flatten)]
    holder: HolderArgs,
    #[command(flatten)]
    shared: CommonArgs,
}

/// A question.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The user, [TENANT:]NAME, or role:[TENANT:]NAME; - for anonymous
    who: String,
    /// The action, as policies name it: s3:GetObject
    action: String,
    /// /BUCKET or /BUCKET/KEY; of another tenant /@TENANT/BUCKET/KEY
    path: String,
    #[command(flatten)]
    shared: CommonArgs,
}

/// The subcommands about groups.
#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    /// Make a group of the tenant's
    Add(GroupArgs),
    /// List the groups of a tenant with their members
    List(GroupListArgs),
    /// Remove a group that has no members and no policies
    Remove(GroupArgs),
    /// Put a user into a group
    Join(MemberArgs),
    /// Take a user out of a group
    Leave(MemberArgs),
    /// Give a bucket or directory a group: new data there is charged to it
    Own(OwnArgs),
    /// Show the group that is charged for new data at a path
    Of(OfArgs),
}

/// A place.
#[derive(Debug, Args)]
pub struct OfArgs {
    /// /BUCKET, /BUCKET/DIRECTORY or /@TENANT/BUCKET; it need not exist
    path: String,
    #[command(flatten)]
    shared: CommonArgs,
}

/// A place, and whose it shall be.
#[derive(Debug, Args)]
pub struct OwnArgs {
    /// /BUCKET, /BUCKET/DIRECTORY or /@TENANT/BUCKET; existing data keeps its group
    path: String,
    /// The group: [TENANT:]NAME
    #[arg(required_unless_present = "nobody")]
    group: Option<String>,
    /// Remove its group
    #[arg(long, conflicts_with = "group")]
    nobody: bool,
    #[command(flatten)]
    shared: CommonArgs,
}

/// One group.
#[derive(Debug, Args)]
pub struct GroupArgs {
    /// The group: [TENANT:]NAME
    name: String,
    #[command(flatten)]
    shared: CommonArgs,
}

/// The groups of a tenant.
#[derive(Debug, Args)]
pub struct GroupListArgs {
    /// The tenant [default: the default tenant]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    #[command(flatten)]
    shared: CommonArgs,
}

/// A user of a group.
#[derive(Debug, Args)]
pub struct MemberArgs {
    /// The group: [TENANT:]NAME
    group: String,
    /// The user's name in the same tenant
    user: String,
    #[command(flatten)]
    shared: CommonArgs,
}

impl HolderArgs {
    fn named(self) -> HolderName {
        match (self.user, self.group, self.role) {
            (Some(user), _, _) => HolderName::User(user),
            (None, Some(group), _) => HolderName::Group(group),
            (None, None, role) => HolderName::Role(role.unwrap_or_default()),
        }
    }
}

/// Reads a document from a file.
pub(super) fn read_policy(file: &Path) -> Result<String, CommandError> {
    let mut text = String::new();
    File::open(file)
        .and_then(|opened| opened.take(POLICY_BYTES_MAX).read_to_string(&mut text))
        .map_err(|error| {
            CommandError::new(FAILED, format!("cannot read {}: {error}", file.display()))
        })?;
    Ok(text)
}

pub(super) fn policy<O: OpenEngine>(command: PolicyCommand, opener: &O) -> CommandResult {
    match command {
        PolicyCommand::ImportAuthdb(args) => authdb::import(&args, opener),
        PolicyCommand::Put(args) => {
            let request = PolicyPut {
                text: read_policy(&args.file)?,
                holder: args.holder.named(),
                policy: args.name,
            };
            done(&args.shared, opener, request)
        }
        PolicyCommand::List(args) => {
            let holder = args.holder.named();
            let policies = ask(&args.shared, opener, PolicyList { holder })?;
            show(&*policies, args.shared.json, policies_text)
        }
        PolicyCommand::Remove(args) => {
            let request = PolicyRemove {
                holder: args.holder.named(),
                policy: args.name,
            };
            done(&args.shared, opener, request)
        }
        PolicyCommand::Explain(args) => {
            let request = PolicyExplain {
                who: Some(args.who).filter(|who| who != "-"),
                action: args.action,
                path: args.path,
            };
            one(&args.shared, opener, request, decision_text)
        }
    }
}

pub(super) fn group<O: OpenEngine>(command: GroupCommand, opener: &O) -> CommandResult {
    let member = |args: MemberArgs, member| {
        let request = GroupMember {
            group: args.group,
            user: args.user,
            member,
        };
        done(&args.shared, opener, request)
    };
    match command {
        GroupCommand::Add(GroupArgs { name, shared }) => done(&shared, opener, GroupAdd { name }),
        GroupCommand::Remove(GroupArgs { name, shared }) => {
            done(&shared, opener, GroupRemove { name })
        }
        GroupCommand::List(GroupListArgs { tenant, shared }) => {
            let groups = ask(&shared, opener, GroupList { tenant })?;
            show(&*groups, shared.json, groups_text)
        }
        GroupCommand::Join(args) => member(args, true),
        GroupCommand::Leave(args) => member(args, false),
        GroupCommand::Own(args) => {
            let (path, group) = (args.path, args.group);
            done(&args.shared, opener, GroupOwn { path, group })
        }
        GroupCommand::Of(OfArgs { path, shared }) => {
            one(&shared, opener, GroupOf { path }, charged_text)
        }
    }
}

fn policies_text(policies: &[PolicyInfo]) -> String {
    let mut text = String::new();
    if policies.is_empty() {
        text.push_str("no policies\n");
    }
    for policy in policies {
        text.push_str(&policy.name);
        text.push('\n');
        if let Some(document) = &policy.text {
            text.push_str(document.trim_end());
            text.push('\n');
        }
    }
    text
}

fn decision_text(decision: &DecisionInfo) -> String {
    let word = if decision.allowed {
        "allowed"
    } else {
        "denied"
    };
    format!("{word}: {}\n", decision.reason)
}

fn groups_text(groups: &[GroupInfo]) -> String {
    let rows: Vec<_> = groups
        .iter()
        .map(|group| vec![group.name.clone(), group.members.join(", ")])
        .collect();
    table_or(&["GROUP", "MEMBERS"], &rows, "no groups")
}

fn charged_text(charged: &ChargedGroupInfo) -> String {
    match (&charged.group, &charged.by) {
        (Some(group), Some(by)) => format!("{group}, whose {by} is\n"),
        (None, Some(by)) => format!(
            "a group that was removed, whose {by} was: `dewar group own {by}` gives it to another one\n"
        ),
        (_, None) => "none\n".to_owned(),
    }
}
