//! XRootD's authorization database as policies (XRootD "Authorization Database File", the letters,
//! templates and compound identifiers of its `XrdAcc`).
//!
//! A record is a kind, a name, and pairs of a path and letters. A backslash at the end of a line
//! continues it on the next. The two languages differ, so the result of each record is reported:
//!
//! - Paths are prefixes of text there, so `/store/a` covers `/store/ab` too. The resources end in
//!   `*`.
//! - Letters behind `-` take rights away. They become statements that deny.
//! - A right to insert cannot be distinguished from a right to overwrite.
//! - Host names, organisations, roles and netgroups do not exist here, and exclusive records (`x`)
//!   have no equivalent. Such records are reported and left out. So no right becomes wider than it
//!   was, except where such a record was meant to hide others.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Longest database that is read, in bytes.
pub const AUTHDB_BYTES_MAX: usize = 1 << 20;

/// The most bytes of the statements of one policy.
const POLICY_BYTES: usize = 18 << 10;

/// How deep templates may name templates.
const DEPTH_MAX: usize = 8;

/// The holder of converted statements.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuthdbHolder {
    /// A user's policy.
    User(String),
    /// A group's policy.
    Group(String),
    /// The policy of a bucket, for everybody.
    Bucket(String),
}

/// The result of converting one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthdbLine {
    /// The line on which the record begins, counted from 1.
    pub line: usize,
    /// The text of the record.
    pub text: String,
    /// The results of the conversion, or the reasons why nothing was converted.
    pub told: Vec<String>,
    /// Whether all of it means the same here.
    pub exact: bool,
}

/// A database as policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authdb {
    /// The result for each record.
    pub lines: Vec<AuthdbLine>,
    statements: BTreeMap<AuthdbHolder, Vec<Value>>,
}

#[derive(Clone, Copy, Default)]
struct Privileges {
    read: bool,
    lookup: bool,
    insert: bool,
    write: bool,
    delete: bool,
    rename: bool,
    lock: bool,
}

impl Privileges {
    fn actions(self) -> Vec<&'static str> {
        let mut actions = Vec::new();
        if self.read {
            actions.extend(["s3:GetObject", "s3:GetObjectVersion", "s3:GetObjectTagging"]);
        }
        if self.lookup {
            actions.push("s3:GetObjectAttributes");
        }
        if self.insert || self.write || self.rename {
            actions.extend([
                "s3:PutObject",
                "s3:AbortMultipartUpload",
                "s3:ListMultipartUploadParts",
            ]);
        }
        if self.delete || self.rename {
            actions.push("s3:DeleteObject");
        }
        if self.rename {
            actions.push("s3:RenameObject");
        }
        actions
    }
}

/// Letters that give, and those behind a dash that take away.
fn letters(text: &str) -> Option<(Privileges, Privileges)> {
    let mut both = (Privileges::default(), Privileges::default());
    let mut takes = false;
    for letter in text.chars() {
        let set = if takes { &mut both.1 } else { &mut both.0 };
        match letter {
            '-' if !takes => takes = true,
            'a' => {
                *set = Privileges {
                    read: true,
                    lookup: true,
                    insert: true,
                    write: true,
                    delete: true,
                    rename: true,
                    lock: true,
                }
            }
            'r' => set.read = true,
            'l' => set.lookup = true,
            'i' => set.insert = true,
            'w' => set.write = true,
            'd' => set.delete = true,
            'n' => set.rename = true,
            'k' => set.lock = true,
            _ => return None,
        }
    }
    Some(both)
}

/// The holder and the conditions of a record.
struct RecordSubject {
    holder: Option<AuthdbHolder>,
    condition: serde_json::Map<String, Value>,
}

#[derive(Default)]
struct Definitions {
    templates: BTreeMap<String, Vec<String>>,
    compounds: BTreeMap<String, Vec<(char, String)>>,
}

impl AuthdbLine {
    fn fail(&mut self, why: String) {
        self.told.push(why);
        self.exact = false;
    }
}

impl Authdb {
    /// Parses a database. It never fails: records that cannot be converted are reported.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut all = Self::default();
        let mut names = Definitions::default();
        let records = records(text);
        // What is named may stand behind what names it.
        for (_, _, words) in &records {
            match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["t", name, ref rest @ ..] => {
                    let rest = rest.iter().map(|word| (*word).to_owned()).collect();
                    names.templates.insert(name.to_owned(), rest);
                }
                ["=", name, ref rest @ ..] => {
                    let pairs = rest
                        .chunks_exact(2)
                        .filter_map(|pair| Some((pair[0].chars().next()?, pair[1].to_owned())));
                    names.compounds.insert(name.to_owned(), pairs.collect());
                }
                _ => {}
            }
        }
        for (line, text, words) in records {
            let mut told = AuthdbLine {
                line,
                text,
                told: Vec::new(),
                exact: true,
            };
            all.take(&words, &names, &mut told);
            all.lines.push(told);
        }
        all
    }

    /// The resulting policies, by holder. A holder gets several if one would be too long. A bucket
    /// has only one, of any length.
    #[must_use]
    pub fn policies(&self) -> Vec<(AuthdbHolder, String)> {
        let mut policies = Vec::new();
        for (holder, statements) in &self.statements {
            let mut part: Vec<&Value> = Vec::new();
            let mut bytes = 0;
            let text =
                |part: &[&Value]| json!({"Version": "2012-10-17", "Statement": part}).to_string();
            for statement in statements {
                let size = statement.to_string().len() + 1;
                let full = bytes + size > POLICY_BYTES;
                if full && !part.is_empty() && !matches!(holder, AuthdbHolder::Bucket(_)) {
                    policies.push((holder.clone(), text(&part)));
                    part.clear();
                    bytes = 0;
                }
                part.push(statement);
                bytes += size;
            }
            policies.push((holder.clone(), text(&part)));
        }
        policies
    }

    fn take(&mut self, words: &[String], names: &Definitions, told: &mut AuthdbLine) {
        let (Some(kind), Some(name)) = (words.first(), words.get(1)) else {
            return told.fail("it is no record".to_owned());
        };
        let who = match kind.as_str() {
            "t" | "=" => {
                told.told
                    .push("named only: see where it is used".to_owned());
                return;
            }
            "x" => return told.fail("left out: an exclusive record has no like here".to_owned()),
            "s" => names.compounds.get(name).map_or_else(
                || Err(format!("left out: {name} is not defined")),
                |parts| compound(parts),
            ),
            kind => simple(kind, name),
        };
        let who = match who {
            Ok(who) => who,
            Err(why) => return told.fail(why),
        };
        let mut pairs = Vec::new();
        if let Err(why) = expand(&words[2..], names, 0, &mut pairs) {
            return told.fail(why);
        }
        for (path, text) in pairs {
            self.give(&who, name, &path, &text, told);
        }
    }

    fn give(
        &mut self,
        who: &RecordSubject,
        name: &str,
        path: &str,
        text: &str,
        told: &mut AuthdbLine,
    ) {
        let Some((gives, takes)) = letters(text) else {
            return told.fail(format!("left out: {text:?} are no letters"));
        };
        let named = if who.holder == Some(AuthdbHolder::User("=".to_owned())) {
            "${aws:username}"
        } else {
            name
        };
        let path = path.replace("@=", named);
        let Some((bucket, key)) = place(&path) else {
            return told.fail(format!("left out: {path} names no bucket"));
        };
        if gives.insert != gives.write {
            told.fail(format!(
                "{path}: inserting and overwriting are one right here"
            ));
        }
        if gives.lock || takes.lock {
            told.told
                .push(format!("{path}: locks are none of a policy's"));
        }
        let holder = match &who.holder {
            Some(AuthdbHolder::User(user)) if user == "=" => AuthdbHolder::Bucket(bucket.clone()),
            Some(holder) => holder.clone(),
            None => AuthdbHolder::Bucket(bucket.clone()),
        };
        for (effect, letters) in [("Allow", gives), ("Deny", takes)] {
            let actions = letters.actions();
            if actions.is_empty() {
                continue;
            }
            let shown = format!("{effect} {} on {path}*", actions.join(", "));
            told.told.push(format!("{}: {shown}", whose(&holder)));
            let resource = vec![format!("arn:aws:s3:::{bucket}/{key}*")];
            self.add(&holder, who, effect, &actions, resource, None, told.line);
            if letters.lookup {
                let resource = vec![format!("arn:aws:s3:::{bucket}")];
                let prefix = (!key.is_empty()).then(|| format!("{key}*"));
                let actions = ["s3:ListBucket"];
                self.add(&holder, who, effect, &actions, resource, prefix, told.line);
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one statement")]
    fn add(
        &mut self,
        holder: &AuthdbHolder,
        who: &RecordSubject,
        effect: &str,
        actions: &[&str],
        resource: Vec<String>,
        prefix: Option<String>,
        line: usize,
    ) {
        let statements = self.statements.entry(holder.clone()).or_default();
        let mut statement = json!({
            "Sid": format!("line{line}n{}", statements.len() + 1),
            "Effect": effect,
            "Action": actions,
            "Resource": resource,
        });
        if matches!(holder, AuthdbHolder::Bucket(_)) {
            statement["Principal"] = json!({"AWS": "*"});
        }
        let mut condition = who.condition.clone();
        if let Some(prefix) = prefix {
            condition.insert("StringLike".to_owned(), json!({"s3:prefix": prefix}));
        }
        if !condition.is_empty() {
            statement["Condition"] = Value::Object(condition);
        }
        statements.push(statement);
    }
}

fn whose(holder: &AuthdbHolder) -> String {
    match holder {
        AuthdbHolder::User(name) => format!("user {name}"),
        AuthdbHolder::Group(name) => format!("group {name}"),
        AuthdbHolder::Bucket(name) => format!("bucket {name}, everybody"),
    }
}

/// Records with their first lines; words as blanks part them.
fn records(text: &str) -> Vec<(usize, String, Vec<String>)> {
    let mut found = Vec::new();
    let mut whole = String::new();
    let mut begins = 0;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if whole.is_empty() {
            begins = at + 1;
        }
        if let Some(more) = line.strip_suffix('\\') {
            whole.push_str(more);
            whole.push(' ');
            continue;
        }
        whole.push_str(line);
        let record = std::mem::take(&mut whole);
        let record = record.trim();
        if record.is_empty() || record.starts_with('#') {
            continue;
        }
        let words = record.split_ascii_whitespace().map(str::to_owned);
        found.push((begins, record.to_owned(), words.collect()));
    }
    found
}

/// Expands pairs of a path and letters. A word without a path names a template.
fn expand(
    words: &[String],
    names: &Definitions,
    depth: usize,
    pairs: &mut Vec<(String, String)>,
) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err("left out: templates name each other".to_owned());
    }
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word.starts_with('/') {
            let letters = words
                .next()
                .ok_or_else(|| format!("left out: {word} has no letters"))?;
            pairs.push((word.clone(), letters.clone()));
        } else {
            let template = names
                .templates
                .get(word)
                .ok_or_else(|| format!("left out: there is no template {word}"))?;
            expand(template, names, depth + 1, pairs)?;
        }
    }
    Ok(())
}

fn simple(kind: &str, name: &str) -> Result<RecordSubject, String> {
    let holder = match (kind, name) {
        ("u", "*") => None,
        ("u", name) => Some(AuthdbHolder::User(name.to_owned())),
        ("g", name) => Some(AuthdbHolder::Group(name.to_owned())),
        ("h", name) => {
            let mut condition = serde_json::Map::new();
            condition.insert("IpAddress".to_owned(), address(name)?);
            return Ok(RecordSubject {
                holder: None,
                condition,
            });
        }
        (other, _) => return Err(format!("left out: {other} is no kind of somebody here")),
    };
    Ok(RecordSubject {
        holder,
        condition: serde_json::Map::new(),
    })
}

fn address(name: &str) -> Result<Value, String> {
    match name.parse::<std::net::IpAddr>() {
        Ok(address) => Ok(json!({"aws:SourceIp": address.to_string()})),
        Err(_) => Err(format!(
            "left out: {name} is a host name, and policies know addresses"
        )),
    }
}

/// All parts must be so: the group's policy, for this user, from there.
fn compound(parts: &[(char, String)]) -> Result<RecordSubject, String> {
    let (mut user, mut group) = (None, None);
    let mut condition = serde_json::Map::new();
    for (kind, name) in parts {
        match kind {
            'u' if user.is_none() => user = Some(name.clone()),
            'g' if group.is_none() => group = Some(name.clone()),
            'h' if condition.is_empty() => {
                condition.insert("IpAddress".to_owned(), address(name)?);
            }
            other => {
                return Err(format!(
                    "left out: {other} is no kind of somebody here, or stands twice"
                ));
            }
        }
    }
    let holder = match (user, group) {
        (Some(user), Some(group)) => {
            // A dollar begins a variable in policies.
            let user = user.replace('$', "${$}");
            condition.insert("StringEquals".to_owned(), json!({"aws:username": user}));
            Some(AuthdbHolder::Group(group))
        }
        (Some(user), None) => Some(AuthdbHolder::User(user)),
        (None, Some(group)) => Some(AuthdbHolder::Group(group)),
        (None, None) => None,
    };
    Ok(RecordSubject { holder, condition })
}

/// The bucket and the key prefix, with the special characters of patterns escaped.
fn place(path: &str) -> Option<(String, String)> {
    let rest = path.strip_prefix('/')?;
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    let fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    if bucket.is_empty() || !bucket.chars().all(fit) {
        return None;
    }
    let mut plain = String::new();
    let mut left = key;
    while let Some(c) = left.chars().next() {
        if let Some(rest) = left.strip_prefix("${aws:username}") {
            plain.push_str("${aws:username}");
            left = rest;
            continue;
        }
        match c {
            '*' | '?' | '$' => plain.push_str(&format!("${{{c}}}")),
            c => plain.push(c),
        }
        left = &left[c.len_utf8()..];
    }
    Some((bucket.to_owned(), plain))
}

/// For the fuzzer: every input results in policies that can be put.
#[doc(hidden)]
pub fn fuzz_authdb(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for (holder, policy) in Authdb::parse(text).policies() {
        let kind = match holder {
            AuthdbHolder::Bucket(_) => crate::PolicyKind::AnyBucket,
            _ => crate::PolicyKind::Identity,
        };
        let parsed = crate::Policy::parse(&policy, kind, usize::MAX);
        assert!(parsed.is_ok(), "{policy}: {parsed:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Action, Caller, Details, Policy, PolicyKind, Resource, User, UserPolicies, UserPolicy,
        authorize,
    };
    use dewar_types::{TenantName, Timestamp, UserId};
    use std::sync::Arc;

    const SAMPLE: &str = "
# People of the collaboration
t common /store/common rl /store/scratch a-d
= boss u ann g atlas
u ann /store/users/ann a common
g atlas /store/atlas rl \\
        /store/atlas/incoming lrwi
s boss /store/atlas lrd
u * /public rl
u = /store/users/@=/ a
h 192.0.2.7 /store/mirror r
h node.example.org /store/mirror r
o cern /store/cern r
x boss /store/x a
u bob nosuch
u carl /store/odd rz
";

    fn may(all: &Authdb, holder: &AuthdbHolder, action: Action, key: &str) -> bool {
        let policies = all.policies();
        let found = policies.iter().find(|(of, _)| of == holder);
        let text = &found.expect("a policy").1;
        let policy = Policy::parse(text, PolicyKind::Identity, usize::MAX).expect("parses");
        let user = User {
            policies: UserPolicies::new(vec![UserPolicy {
                source: "authdb".into(),
                policy: Arc::new(policy),
                tenant_wide: true,
            }]),
            ..User::new(
                UserId(2),
                "ann",
                TenantName::default(),
                Timestamp::default(),
            )
        };
        let tenant = TenantName::default();
        let resource = Resource::Bucket {
            tenant: &tenant,
            bucket: "store",
            owner: UserId(1),
            access: None,
            key: Some(key),
            object: None,
        };
        let details = Details::default();
        authorize(&Caller::for_user(user), action, resource, &details).is_ok()
    }

    #[test]
    fn records_become_policies_that_decide_the_same() {
        use Action as A;
        let all = Authdb::parse(SAMPLE);
        let ann = AuthdbHolder::User("ann".into());
        let atlas = AuthdbHolder::Group("atlas".into());
        assert!(may(&all, &ann, A::DeleteObject, "users/ann/x"));
        assert!(may(&all, &ann, A::GetObject, "users/anna"));
        assert!(!may(&all, &ann, A::GetObject, "users/bob"));
        assert!(may(&all, &ann, A::GetObject, "common/x"));
        assert!(!may(&all, &ann, A::PutObject, "common/x"));
        assert!(may(&all, &ann, A::PutObject, "scratch/x"));
        assert!(!may(&all, &ann, A::DeleteObject, "scratch/x"));
        assert!(may(&all, &atlas, A::PutObject, "atlas/incoming/x"));
        assert!(!may(&all, &atlas, A::PutObject, "atlas/x"));
        // The compound one: this user, in this group.
        assert!(may(&all, &atlas, A::DeleteObject, "atlas/x"));
        let policies = all.policies();
        let buckets: Vec<_> = policies
            .iter()
            .filter(|(holder, _)| matches!(holder, AuthdbHolder::Bucket(_)))
            .collect();
        assert_eq!(buckets.len(), 2);
        for (_, text) in &buckets {
            Policy::parse(text, PolicyKind::AnyBucket, usize::MAX).expect("parses");
        }
        assert!(
            buckets[1].1.contains("users/${aws:username}/*"),
            "{}",
            buckets[1].1
        );
        assert!(buckets[1].1.contains("192.0.2.7"));
    }

    #[test]
    fn each_line_is_told_of() {
        let all = Authdb::parse(SAMPLE);
        let told = |begins: &str| {
            let line = all.lines.iter().find(|line| line.text.starts_with(begins));
            let line = line.expect(begins);
            (line.exact, line.told.join("; "))
        };
        assert!(told("t common").0 && told("= boss").0 && told("u * ").0);
        for (begins, why) in [
            ("h node", "host name"),
            ("o cern", "no kind of somebody"),
            ("x boss", "exclusive"),
            ("u bob", "no template nosuch"),
            ("u carl", "no letters"),
        ] {
            let (exact, words) = told(begins);
            assert!(!exact && words.contains(why), "{begins}: {words}");
        }
        assert_eq!(all.lines.len(), 13);
        let continued = all
            .lines
            .iter()
            .find(|line| line.text.starts_with("g atlas"));
        assert_eq!(continued.map(|line| line.line), Some(6));
    }

    #[test]
    fn what_patterns_would_mean_is_made_plain() {
        assert_eq!(
            place("/b/a*b?$"),
            Some(("b".into(), "a${*}b${?}${$}".into()))
        );
        assert_eq!(place("/"), None);
        assert_eq!(place("/Bucket/a"), None);
        fuzz_authdb(b"u ann /b/a*b?$x{} a\nu = /b/@=/ a-d\n");
        fuzz_authdb(b"= x u ${ann g atlas\ns x /b/${a/@= rl\nu ${b /b/@=/x a\n");
        let endless = Authdb::parse("t a b\nt b a\nu x a\n");
        assert!(endless.lines[2].told[0].contains("name each other"));
    }
}
