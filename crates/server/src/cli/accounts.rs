//! `dewar user` and `dewar key`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dewar_auth::Secret;
use zeroize::Zeroizing;

use super::columns::{print, print_json, table, table_or};
use super::exit::{CommandError, CommandResult, FAILED, USAGE};
use super::run::block_on;
use super::server_target::{AdminAccess, ServerTarget, reach};
use super::{disks, status};
use crate::admin::{
    AccountState, KeyAdd, KeyInfo, ListPage, NewKey, Reply, Request, UserAdd, UserInfo,
};
use crate::credentials;
use crate::engine::OpenEngine;

/// A secret in a file is no longer than this.
const SECRET_FILE_BYTES_MAX: u64 = 4096;

/// The subcommands about users.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Add a user; `dewar key add` then gives it a key
    Add(UserAddArgs),
    /// List users
    List(UserListArgs),
    /// Remove a user who owns no bucket, with all keys
    Remove(NameArgs),
    /// Disable a user: its keys stop working, its data stays
    Disable(NameArgs),
    /// Enable a user again
    Enable(NameArgs),
}

/// One user.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// The user's name
    name: String,
    #[command(flatten)]
    shared: CommonArgs,
}

/// A user to add.
#[derive(Debug, Args)]
pub struct UserAddArgs {
    /// The user's name; ROOT/NAME for a user of ROOT's account, with the rights that policies give
    name: String,
    /// The tenant, created if it does not exist [default: the default tenant]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// The display name
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// The mail address, which access control lists may use
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// Let it manage the users, groups and policies of its tenant, over the IAM API
    #[arg(long)]
    tenant_admin: bool,
    #[command(flatten)]
    shared: CommonArgs,
}

/// All users.
#[derive(Debug, Args)]
pub struct UserListArgs {
    #[command(flatten)]
    shared: CommonArgs,
}

/// The subcommands about access keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Add a key, made up or brought along; its secret is shown this once
    Add(KeyAddArgs),
    /// List keys, without their secrets
    List(KeyListArgs),
    /// Remove a key
    Remove(KeyArgs),
    /// Disable a key
    Disable(KeyArgs),
    /// Enable a key again
    Enable(KeyArgs),
}

/// A key to add.
#[derive(Debug, Args)]
pub struct KeyAddArgs {
    /// The user who gets the key
    #[arg(long, value_name = "NAME")]
    user: String,
    /// The access key, if it exists already elsewhere
    #[arg(long, value_name = "KEY", requires = "secret_key_file")]
    access_key: Option<String>,
    /// A file that holds its secret and nothing else; - reads standard input
    #[arg(long, value_name = "FILE", requires = "access_key")]
    secret_key_file: Option<PathBuf>,
    #[command(flatten)]
    shared: CommonArgs,
}

/// Keys of one user or all.
#[derive(Debug, Args)]
pub struct KeyListArgs {
    /// Only keys of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    #[command(flatten)]
    shared: CommonArgs,
}

/// One key.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// The access key
    access_key: String,
    #[command(flatten)]
    shared: CommonArgs,
}

/// The arguments of every admin command.
#[derive(Debug, Args)]
pub(super) struct CommonArgs {
    #[command(flatten)]
    pub(super) target: ServerTarget,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn user<O: OpenEngine>(command: UserCommand, opener: &O) -> CommandResult {
    let (name, shared, request): (String, CommonArgs, fn(String) -> Request) = match command {
        UserCommand::List(UserListArgs { shared }) => return user_list(&shared, opener),
        UserCommand::Add(args) => {
            for part in args.name.splitn(2, '/') {
                credentials::check_user_name(part)
                    .map_err(|reason| CommandError::new(USAGE, reason))?;
            }
            let request = Request::UserAdd(UserAdd {
                name: args.name,
                tenant: args.tenant,
                display_name: args.display_name,
                email: args.email,
                tenant_admin: args.tenant_admin,
            });
            return one(&args.shared, opener, request);
        }
        UserCommand::Remove(NameArgs { name, shared }) => {
            let request = Request::UserRemove { name: name.clone() };
            return remove(&shared, opener, request, "user", &name);
        }
        UserCommand::Disable(args) => (args.name, args.shared, |name| Request::UserSet {
            name,
            state: AccountState::Disabled,
        }),
        UserCommand::Enable(args) => (args.name, args.shared, |name| Request::UserSet {
            name,
            state: AccountState::Enabled,
        }),
    };
    one(&shared, opener, request(name))
}

pub(super) fn key<O: OpenEngine>(command: KeyCommand, opener: &O) -> CommandResult {
    let (access_key, shared, state) = match command {
        KeyCommand::Add(args) => {
            let brought = args.secret_key_file.is_some();
            let request = Request::KeyAdd(key_to_add(&args)?);
            let reply = ask(&args.shared, opener, request)?;
            return match &reply {
                Reply::NewKey(key) if brought => show_brought(key, args.shared.json),
                reply => show(reply, args.shared.json),
            };
        }
        KeyCommand::List(args) => return key_list(&args, opener),
        KeyCommand::Remove(KeyArgs { access_key, shared }) => {
            let request = Request::KeyRemove {
                access_key: access_key.clone(),
            };
            return remove(&shared, opener, request, "key", &access_key);
        }
        KeyCommand::Disable(args) => (args.access_key, args.shared, AccountState::Disabled),
        KeyCommand::Enable(args) => (args.access_key, args.shared, AccountState::Enabled),
    };
    one(&shared, opener, Request::KeySet { access_key, state })
}

fn key_to_add(args: &KeyAddArgs) -> Result<KeyAdd, CommandError> {
    let refuse = |reason: String| CommandError::new(USAGE, reason);
    let secret_key = match &args.secret_key_file {
        Some(file) => {
            let secret = read_secret(file)?;
            credentials::check_secret_key(&secret).map_err(refuse)?;
            Some(secret)
        }
        None => None,
    };
    if let Some(access_key) = &args.access_key {
        credentials::check_access_key(access_key).map_err(refuse)?;
    }
    Ok(KeyAdd {
        user: args.user.clone(),
        access_key: args.access_key.clone(),
        secret_key,
    })
}

/// Reads a secret; white space at the end belongs to the editor, not to it.
fn read_secret(file: &Path) -> Result<Secret, CommandError> {
    let mut text = Zeroizing::new(String::with_capacity(SECRET_FILE_BYTES_MAX as usize + 1));
    let read = if file == Path::new("-") {
        std::io::stdin()
            .take(SECRET_FILE_BYTES_MAX)
            .read_to_string(&mut text)
    } else {
        File::open(file)
            .and_then(|opened| opened.take(SECRET_FILE_BYTES_MAX).read_to_string(&mut text))
    };
    read.map_err(|error| {
        CommandError::new(FAILED, format!("cannot read {}: {error}", file.display()))
    })?;
    Ok(Secret::new(text.trim_end().to_owned()))
}

pub(super) fn one<O: OpenEngine>(
    shared: &CommonArgs,
    opener: &O,
    request: Request,
) -> CommandResult {
    show(&ask(shared, opener, request)?, shared.json)
}

/// Removes something and says what.
fn remove<O: OpenEngine>(
    shared: &CommonArgs,
    opener: &O,
    request: Request,
    what: &str,
    name: &str,
) -> CommandResult {
    match ask(shared, opener, request)? {
        Reply::Done if shared.json => print_json(&serde_json::json!({ "removed": name })),
        Reply::Done => print(&format!("{what} {name} removed\n")),
        _ => return Err(strange()),
    }
    .map(|()| 0)
}

pub(super) fn ask<O: OpenEngine>(
    shared: &CommonArgs,
    opener: &O,
    request: Request,
) -> Result<Reply, CommandError> {
    block_on(reach(
        &shared.target,
        opener,
        async |reached: &mut AdminAccess| reached.ask(request).await,
    ))
}

pub(super) fn strange() -> CommandError {
    CommandError::new(FAILED, "the server gave a reply to another question")
}

fn user_list<O: OpenEngine>(shared: &CommonArgs, opener: &O) -> CommandResult {
    let users = block_on(reach(
        &shared.target,
        opener,
        async |reached: &mut AdminAccess| {
            let mut users: Vec<UserInfo> = Vec::new();
            let mut after = None;
            loop {
                match reached.ask(Request::UserList { after }).await? {
                    Reply::Users(ListPage { items, next }) => {
                        users.extend(items);
                        after = next;
                    }
                    _ => return Err(strange()),
                }
                if after.is_none() {
                    return Ok(users);
                }
            }
        },
    ))?;
    if shared.json {
        return print_json(&users).map(|()| 0);
    }
    let rows: Vec<_> = users.iter().map(user_row).collect();
    print(&table_or(USER_HEAD, &rows, "no users")).map(|()| 0)
}

fn key_list<O: OpenEngine>(args: &KeyListArgs, opener: &O) -> CommandResult {
    let shared = &args.shared;
    let keys = block_on(reach(
        &shared.target,
        opener,
        async |reached: &mut AdminAccess| {
            let mut keys: Vec<KeyInfo> = Vec::new();
            let mut after = None;
            loop {
                let user = args.user.clone();
                match reached.ask(Request::KeyList { user, after }).await? {
                    Reply::Keys(ListPage { items, next }) => {
                        keys.extend(items);
                        after = next;
                    }
                    _ => return Err(strange()),
                }
                if after.is_none() {
                    return Ok(keys);
                }
            }
        },
    ))?;
    if shared.json {
        return print_json(&keys).map(|()| 0);
    }
    let rows: Vec<_> = keys.iter().map(key_row).collect();
    print(&table_or(KEY_HEAD, &rows, "no access keys")).map(|()| 0)
}

const USER_HEAD: &[&str] = &["NAME", "STATE", "CREATED", "ID"];
const KEY_HEAD: &[&str] = &["ACCESS KEY", "USER", "STATE", "CREATED"];

fn state_text(state: AccountState) -> String {
    match state {
        AccountState::Enabled => "enabled",
        AccountState::Disabled => "disabled",
    }
    .to_owned()
}

fn user_row(user: &UserInfo) -> Vec<String> {
    let (name, created, id) = (user.name.clone(), user.created.clone(), user.id.clone());
    vec![name, state_text(user.state), created, id]
}

fn key_row(key: &KeyInfo) -> Vec<String> {
    let (access_key, user) = (key.access_key.clone(), key.user.clone());
    let mut state = state_text(key.state);
    if key.user_state == AccountState::Disabled {
        state.push_str(", user disabled");
    }
    vec![access_key, user, state, key.created.clone()]
}

/// Shows a key whose secret was brought along, and so is known: it must not reach a terminal's
/// history or a job's log from here.
fn show_brought(key: &NewKey, json: bool) -> CommandResult {
    if json {
        let known = serde_json::json!({ "user": key.user, "access_key": key.access_key });
        return print_json(&known).map(|()| 0);
    }
    let text = format!(
        "user        {}\naccess key  {}\nsecret key  as brought along\n",
        key.user, key.access_key
    );
    print(&text).map(|()| 0)
}

/// Shows one reply. In JSON it is the content, without the enum tag.
pub(super) fn show(reply: &Reply, json: bool) -> CommandResult {
    if json {
        match reply {
            Reply::Done => print_json(&serde_json::json!({})),
            Reply::Status(status) => print_json(status),
            Reply::Disks(disks) => print_json(disks),
            Reply::DiskAdded(added) => print_json(added),
            Reply::DiskDecided(decided) => print_json(decided),
            Reply::DiskRemoved(removed) => print_json(removed),
            Reply::DiskReadmitted(back) => print_json(back),
            Reply::Fsck(fsck) => print_json(fsck),
            Reply::AtRisk(page) => print_json(page),
            Reply::Scrubs(scrubs) => print_json(scrubs),
            Reply::Backup(backup) => print_json(backup),
            Reply::User(user) => print_json(user),
            Reply::Users(page) => print_json(page),
            Reply::NewKey(key) => print_json(key),
            Reply::Key(key) => print_json(key),
            Reply::Keys(page) => print_json(page),
            Reply::Identity(reply) => print_json(reply),
            Reply::Federation(reply) => print_json(reply),
            Reply::Quotas(quotas) => print_json(quotas),
            Reply::Shares(shares) => print_json(shares),
            Reply::KeyFile(reply) => print_json(reply),
        }?;
        return Ok(0);
    }
    let text = match reply {
        Reply::Done => "done\n".to_owned(),
        Reply::Status(status) => status::text(status),
        Reply::Disks(disks) => disks::text(disks),
        Reply::DiskAdded(added) => disks::added_text(added),
        Reply::DiskDecided(decided) => disks::decided_text(decided),
        Reply::DiskRemoved(removed) => disks::removed_text(removed),
        Reply::DiskReadmitted(back) => disks::readmitted_text(back),
        // Their commands put these together, out of several replies.
        Reply::Fsck(_) | Reply::AtRisk(_) | Reply::Scrubs(_) => "done\n".to_owned(),
        Reply::Backup(_) => String::new(),
        Reply::User(user) => table(USER_HEAD, &[user_row(user)]),
        Reply::Users(page) => table_or(
            USER_HEAD,
            &page.items.iter().map(user_row).collect::<Vec<_>>(),
            "no users",
        ),
        Reply::NewKey(key) => format!(
            "user        {}\naccess key  {}\nsecret key  {}\n\nThe secret is not shown again.\n",
            key.user,
            key.access_key,
            key.secret_key.reveal()
        ),
        Reply::Key(key) => table(KEY_HEAD, &[key_row(key)]),
        Reply::Identity(_)
        | Reply::Federation(_)
        | Reply::Quotas(_)
        | Reply::Shares(_)
        | Reply::KeyFile(_) => "done\n".to_owned(),
        Reply::Keys(page) => table_or(
            KEY_HEAD,
            &page.items.iter().map(key_row).collect::<Vec<_>>(),
            "no access keys",
        ),
    };
    print(&text).map(|()| 0)
}
