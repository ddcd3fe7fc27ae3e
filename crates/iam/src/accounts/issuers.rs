//! Issuers of tokens: who may say who somebody is, and what that makes of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_auth::token::{
    BasePath, Issuer, KeySet, MappingRule, MappingTarget, check_url, origin_of, provider_name,
};
use dewar_catalog::keys as catalog;
use dewar_kv::Batch;
use dewar_types::{Error, ErrorKind, Result, TenantName, Timestamp, UserId};

use super::Accounts;
use super::keys::shown;
use crate::names::{exists, none};
use crate::record::{ISSUER, ISSUER_KEYS, IssuerRecord, RuleRecord, decode, encode};

/// Most issuers of a deployment.
const ISSUERS_MAX: usize = 1000;
/// Most audiences, origins and rules of one, each.
const LIST_MAX: usize = 256;
/// Longest audience, claim, value or name in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// An issuer to let in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewIssuer {
    /// Exactly what `iss` says.
    pub url: String,
    /// Whom its tokens may be for.
    pub audiences: Vec<String>,
    /// Address of its keys, if it is not the one in its metadata.
    pub keys_url: Option<String>,
    /// Other origins that metadata and keys may be at.
    pub origins: Vec<String>,
    /// The tenant that its users are in.
    pub tenant: TenantName,
    /// The directory that its capabilities are relative to: `/bucket/dir`.
    pub base: Option<String>,
    /// Rules that map its tokens to users and groups.
    pub rules: Vec<MappingRule>,
}

/// An issuer as administrators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerInfo {
    /// Itself.
    pub issuer: Arc<Issuer>,
    /// When it was let in.
    pub created: Timestamp,
}

fn invalid(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, words.into())
}

pub(super) fn key_of(url: &str) -> bytes::Bytes {
    catalog::user_by(ISSUER, url.as_bytes())
}

pub(super) fn keys_key_of(url: &str) -> bytes::Bytes {
    catalog::user_by(ISSUER_KEYS, url.as_bytes())
}

impl NewIssuer {
    /// Whether it can be one, as an issuer that has not been let in yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`], in words that name what is wrong.
    pub fn check(&self) -> Result<Issuer> {
        check_url(&self.url).map_err(|why| invalid(format!("issuer {why}")))?;
        if self.audiences.is_empty() {
            return Err(invalid(
                "an issuer needs an audience: without one, tokens for any other service would be taken",
            ));
        }
        for url in self.keys_url.iter().chain(&self.origins) {
            check_url(url).map_err(invalid)?;
        }
        let base = match &self.base {
            None => None,
            Some(text) => Some(BasePath::parse(text).ok_or_else(|| {
                invalid(format!(
                    "{text:?} is no base: /BUCKET or /BUCKET/DIRECTORY is one"
                ))
            })?),
        };
        if base.as_ref().is_some_and(|base| base.tenant != self.tenant) {
            return Err(invalid(
                "the base is in another tenant than the issuer's users",
            ));
        }
        let lists = [self.audiences.len(), self.origins.len(), self.rules.len()];
        let names = self.rules.iter().flat_map(|rule| {
            let (MappingTarget::User(name) | MappingTarget::Group(name)) = &rule.becomes;
            [&rule.claim, &rule.value, name]
        });
        let fits = |text: &String| !text.is_empty() && text.len() <= TEXT_BYTES_MAX;
        if lists.iter().any(|len| *len > LIST_MAX) || !self.audiences.iter().chain(names).all(fits)
        {
            return Err(invalid(
                "at most 256 audiences, origins and rules, of 1 to 1024 bytes each, are allowed",
            ));
        }
        let mut origins: Vec<String> = self.origins.iter().map(|url| origin_of(url)).collect();
        // A place that the administrator named is allowed by that.
        origins.extend(self.keys_url.as_deref().map(origin_of));
        origins.sort();
        origins.dedup();
        Ok(Issuer {
            id: 0,
            url: self.url.clone(),
            audiences: self.audiences.clone(),
            keys_url: self.keys_url.clone(),
            origins,
            tenant: self.tenant.clone(),
            base,
            rules: self.rules.clone(),
            disabled: false,
        })
    }
}

impl Accounts {
    /// Lets an issuer in, with its keys as they were fetched just now, if they were.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]; [`ErrorKind::AlreadyExists`], also for one that policies
    /// could not tell from another; [`ErrorKind::Quota`].
    pub async fn add_issuer(&self, new: NewIssuer, keys: Option<&[u8]>) -> Result<Arc<Issuer>> {
        let mut issuer = new.check()?;
        if let Some(set) = keys {
            KeySet::parse(set).map_err(|error| invalid(error.to_string()))?;
        }
        let known = self.issuers().await?;
        let same = known
            .values()
            .find(|other| other.name() == provider_name(&issuer.url));
        if let Some(other) = same {
            return Err(exists("issuer", &other.url));
        }
        if known.len() >= ISSUERS_MAX {
            let message = format!("there are {ISSUERS_MAX} issuers already");
            return Err(Error::new(ErrorKind::Quota, message));
        }
        let mut ids = Vec::with_capacity(issuer.rules.len());
        for rule in &issuer.rules {
            ids.push(match &rule.becomes {
                MappingTarget::User(name) => self.user(name).await?.id.0,
                MappingTarget::Group(name) => self.group(&issuer.tenant, name).await?.id,
            });
        }
        self.make_tenant(&issuer.tenant).await?;
        issuer.id = self.new_id().await?;
        let record = record_of(&issuer, &ids, self.catalog.env().clock.now());
        self.add(vec![(key_of(&issuer.url), encode(&record))], || {
            exists("issuer", &issuer.url)
        })
        .await?;
        if let Some(set) = keys {
            self.learn_keys(&issuer, set).await?;
        }
        Ok(Arc::new(issuer))
    }

    /// Removes an issuer. Its tokens and the sessions that came from them end at once.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn remove_issuer(&self, url: &str) -> Result<()> {
        let issuer = self.issuer_named(url).await?;
        let url = issuer.url.clone();
        let key = key_of(&url);
        let remove = |_: &mut IssuerRecord, batch: &mut Batch| {
            batch.deletes.push(key.clone());
            batch.deletes.push(keys_key_of(&url));
            Ok(())
        };
        self.edit(&key, || none("issuer", &url), remove).await?;
        self.held.drop_keys(&issuer);
        Ok(())
    }

    /// Switches an issuer off or on again.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn set_issuer_disabled(&self, url: &str, disabled: bool) -> Result<()> {
        let url = self.issuer_named(url).await?.url.clone();
        let change = |record: &mut IssuerRecord, _: &mut Batch| {
            record.disabled = disabled;
            Ok(())
        };
        self.edit(&key_of(&url), || none("issuer", &url), change)
            .await
    }

    /// The issuer of an address, or of a name as policies have it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn issuer_named(&self, name: &str) -> Result<Arc<Issuer>> {
        let known = self.issuers().await?;
        let found = known.get(name).or_else(|| {
            known
                .values()
                .find(|issuer| issuer.name() == provider_name(name))
        });
        found.cloned().ok_or_else(|| none("issuer", name))
    }

    /// All issuers by address. Cached.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn issuers(&self) -> Result<Arc<BTreeMap<String, Arc<Issuer>>>> {
        let changes = {
            let cache = self.cache.read();
            if let Some(issuers) = &cache.issuers {
                return Ok(Arc::clone(issuers));
            }
            cache.changes
        };
        let infos = self.issuer_list().await?;
        let issuers = infos
            .into_iter()
            .map(|info| (info.issuer.url.clone(), info.issuer));
        let issuers = Arc::new(issuers.collect::<BTreeMap<_, _>>());
        let mut cache = self.cache.write();
        if cache.changes == changes {
            cache.issuers = Some(Arc::clone(&issuers));
        }
        Ok(issuers)
    }

    /// All issuers by address, as they stand in the catalog.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn issuer_list(&self) -> Result<Vec<IssuerInfo>> {
        let range = catalog::KeyRange::prefix(catalog::user_by(ISSUER, b""));
        let mut found = Vec::new();
        for (_, value) in self.all(&range).await? {
            let mut record: IssuerRecord = decode(&value)?;
            let created = record.created;
            let tenant = TenantName::new(&record.tenant)?;
            for rule in &mut record.rules {
                self.name_anew(&tenant, rule).await?;
            }
            let issuer = Arc::new(issuer_of(record)?);
            found.push(IssuerInfo { issuer, created });
        }
        Ok(found)
    }

    /// Gives the user or group of a rule the name that it has now. One that was removed gets a name
    /// that nobody can have, so that nobody inherits the rule.
    async fn name_anew(&self, tenant: &TenantName, rule: &mut RuleRecord) -> Result<()> {
        let Some(id) = rule.id else { return Ok(()) };
        if let Some(name) = &mut rule.user {
            let user = self.record_by_id(UserId(id)).await?;
            *name = match user {
                Some(user) => shown(&user.tenant, &user.name),
                None => removed(name),
            };
        }
        if let Some(name) = &mut rule.group {
            let tenant = self.tenant_id(tenant).await?;
            *name = match self.group_referred(tenant, id).await? {
                Some(group) => group.name,
                None => removed(name),
            };
        }
        Ok(())
    }
}

/// What stands in a rule for somebody who was removed: no name has spaces.
fn removed(name: &str) -> String {
    format!("{name} (removed)")
}

fn record_of(issuer: &Issuer, ids: &[u64], created: Timestamp) -> IssuerRecord {
    let rules = issuer.rules.iter().zip(ids).map(|(rule, id)| {
        let (user, group) = match &rule.becomes {
            MappingTarget::User(name) => (Some(name.clone()), None),
            MappingTarget::Group(name) => (None, Some(name.clone())),
        };
        RuleRecord {
            claim: rule.claim.clone(),
            value: rule.value.clone(),
            user,
            group,
            id: Some(*id),
        }
    });
    IssuerRecord {
        id: issuer.id,
        url: issuer.url.clone(),
        audiences: issuer.audiences.clone(),
        keys_url: issuer.keys_url.clone(),
        origins: issuer.origins.clone(),
        tenant: issuer.tenant.as_str().to_owned(),
        base: issuer.base.as_ref().map(BasePath::text),
        rules: rules.collect(),
        disabled: issuer.disabled,
        created,
    }
}

fn issuer_of(record: IssuerRecord) -> Result<Issuer> {
    let corrupt = |what: &str| {
        let message = format!("the record of issuer {}: {what}", record.url);
        Error::new(ErrorKind::Corrupt, message)
    };
    let base = match &record.base {
        None => None,
        Some(text) => Some(BasePath::parse(text).ok_or_else(|| corrupt("its base"))?),
    };
    let mut rules = Vec::with_capacity(record.rules.len());
    for rule in &record.rules {
        let becomes = match (&rule.user, &rule.group) {
            (Some(user), None) => MappingTarget::User(user.clone()),
            (None, Some(group)) => MappingTarget::Group(group.clone()),
            _ => return Err(corrupt("a rule that becomes nothing or two things")),
        };
        rules.push(MappingRule {
            claim: rule.claim.clone(),
            value: rule.value.clone(),
            becomes,
        });
    }
    Ok(Issuer {
        id: record.id,
        tenant: TenantName::new(&record.tenant)?,
        base,
        rules,
        url: record.url,
        audiences: record.audiences,
        keys_url: record.keys_url,
        origins: record.origins,
        disabled: record.disabled,
    })
}
