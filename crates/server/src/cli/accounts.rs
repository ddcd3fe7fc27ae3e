//! `dewar user` and `dewar key`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dewar_admin::accounts::{
    AccountState, KeyAdd, KeyInfo, KeyList, KeyRemove, KeySet, NewKey, UserAdd, UserInfo, UserList,
    UserRemove, UserSet,
};
use dewar_auth::Secret;
use zeroize::Zeroizing;

use super::admin_request::{CommonArgs, all_pages, ask, one, remove, show};
use super::columns::{table, table_or};
use super::exit::{CommandError, CommandResult, FAILED, USAGE};
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

pub(super) fn user<O: OpenEngine>(command: UserCommand, opener: &O) -> CommandResult {
    let set =
        |NameArgs { name, shared }, state| one(&shared, opener, UserSet { name, state }, user_text);
    match command {
        UserCommand::List(UserListArgs { shared }) => {
            let page = |after| UserList { after };
            let users = all_pages(&shared, opener, page)?;
            show(&*users, shared.json, users_text)
        }
        UserCommand::Add(args) => {
            for part in args.name.splitn(2, '/') {
                credentials::check_user_name(part)
                    .map_err(|reason| CommandError::new(USAGE, reason))?;
            }
            let request = UserAdd {
                name: args.name,
                tenant: args.tenant,
                display_name: args.display_name,
                email: args.email,
                tenant_admin: args.tenant_admin,
            };
            one(&args.shared, opener, request, user_text)
        }
        UserCommand::Remove(NameArgs { name, shared }) => {
            let request = UserRemove { name: name.clone() };
            remove(&shared, opener, request, ("user", &name))
        }
        UserCommand::Disable(args) => set(args, AccountState::Disabled),
        UserCommand::Enable(args) => set(args, AccountState::Enabled),
    }
}

pub(super) fn key<O: OpenEngine>(command: KeyCommand, opener: &O) -> CommandResult {
    let set = |KeyArgs { access_key, shared }, state| {
        one(&shared, opener, KeySet { access_key, state }, key_text)
    };
    match command {
        KeyCommand::Add(args) => {
            let brought = args.secret_key_file.is_some();
            let key = ask(&args.shared, opener, key_to_add(&args)?)?;
            match brought {
                true => show_brought(&key, args.shared.json),
                false => show(&key, args.shared.json, new_key_text),
            }
        }
        KeyCommand::List(KeyListArgs { user, shared }) => {
            let page = |after| KeyList {
                user: user.clone(),
                after,
            };
            let keys = all_pages(&shared, opener, page)?;
            show(&*keys, shared.json, keys_text)
        }
        KeyCommand::Remove(KeyArgs { access_key, shared }) => {
            let request = KeyRemove {
                access_key: access_key.clone(),
            };
            remove(&shared, opener, request, ("key", &access_key))
        }
        KeyCommand::Disable(args) => set(args, AccountState::Disabled),
        KeyCommand::Enable(args) => set(args, AccountState::Enabled),
    }
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

fn user_text(user: &UserInfo) -> String {
    table(USER_HEAD, &[user_row(user)])
}

fn users_text(users: &[UserInfo]) -> String {
    let rows: Vec<_> = users.iter().map(user_row).collect();
    table_or(USER_HEAD, &rows, "no users")
}

fn key_text(key: &KeyInfo) -> String {
    table(KEY_HEAD, &[key_row(key)])
}

fn keys_text(keys: &[KeyInfo]) -> String {
    let rows: Vec<_> = keys.iter().map(key_row).collect();
    table_or(KEY_HEAD, &rows, "no access keys")
}

fn new_key_text(key: &NewKey) -> String {
    format!(
        "user        {}\naccess key  {}\nsecret key  {}\n\nThe secret is not shown again.\n",
        key.user,
        key.access_key,
        key.secret_key.reveal()
    )
}

/// A key whose secret was brought along, and so is known: it must not reach a terminal's history or
/// a job's log from here.
fn show_brought(key: &NewKey, json: bool) -> CommandResult {
    let known = serde_json::json!({ "user": key.user, "access_key": key.access_key });
    show(&known, json, |_| {
        format!(
            "user        {}\naccess key  {}\nsecret key  as brought along\n",
            key.user, key.access_key
        )
    })
}
