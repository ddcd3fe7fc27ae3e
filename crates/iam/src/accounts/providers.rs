//! OpenID Connect providers that accounts and tenants let in for themselves, over the IAM API.
//!
//! An issuer that an administrator lets in ([`super::NewIssuer`]) vouches for bearer tokens at every
//! door. A provider is less: its tokens only become roles, by AssumeRoleWithWebIdentity, and only
//! roles of the account or tenant whose provider it is. Records of the two are in different ranges
//! of the catalog, so that nothing takes one for the other.
//!
//! The server connects to a provider to fetch its keys. The administrator lists the hosts
//! that it may connect to ([`FederationConfig::provider_hosts`]). By default there are none.

use std::sync::Arc;

use bytes::Bytes;
use dewar_auth::token::{
    Issuer, Jws, TokenError, VerifiedToken, check_url, claimed_issuer, provider_name,
};
use dewar_catalog::keys as catalog;
use dewar_kv::Batch;
use dewar_types::{Error, ErrorKind, Result, TenantName, Timestamp, UserId};
use minicbor::{Decode, Encode};
use parking_lot::RwLock;

use super::Accounts;
use crate::names::{exists, none};
use crate::record::{PROVIDER, PROVIDER_BY_ID, decode, encode};

/// Most providers of an account, or of a tenant (IAM: 100).
const PROVIDERS_MAX: usize = 100;
/// Most client ids of one (IAM: 100).
const CLIENT_IDS_MAX: usize = 100;
/// Longest client id in bytes (IAM: 255).
const CLIENT_ID_BYTES_MAX: usize = 255;
/// Most thumbprints of one (IAM: 5).
const THUMBPRINTS_MAX: usize = 5;
/// Characters of a thumbprint (IAM: 40, a SHA-1 in hexadecimal digits).
const THUMBPRINT_CHARS: usize = 40;

/// Limits of the administrator on the providers of accounts and tenants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FederationConfig {
    /// Hosts that providers may have: `host`, `host:port`, `*.domain`, or `*`. The last two do not
    /// mean this machine.
    pub provider_hosts: Vec<String>,
    /// Whom tokens are for that are for this service. A provider without client ids takes these.
    pub audiences: Vec<String>,
    /// Whether a trust policy may let in all users of a provider whose tokens are for a client
    /// that it names.
    pub client_trust: bool,
    /// Whether conditions on `aws:TagKeys` see the keys of a session's tags where a request gives
    /// none.
    pub session_tag_keys: bool,
}

/// The configuration, and what makes one change of a kind wait for another.
#[derive(Default)]
pub(super) struct Federation {
    config: RwLock<Arc<FederationConfig>>,
    /// Held by who makes a provider, so that counting them is right.
    making: tokio::sync::Mutex<()>,
}

/// The owner of a provider: an account, or a tenant if there is no account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderOwner {
    /// The tenant.
    pub tenant: TenantName,
    /// The account.
    pub account: Option<UserId>,
}

impl ProviderOwner {
    /// As ARNs have it: the account's id, or the tenant's name. No tenant is called like an id.
    #[must_use]
    pub fn field(&self) -> String {
        match self.account {
            Some(account) => account.to_string(),
            None => self.tenant.as_str().to_owned(),
        }
    }
}

/// A provider of an account or tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Never given twice.
    pub id: u64,
    /// Exactly what `iss` says in its tokens.
    pub url: String,
    /// The audiences that its tokens may have. Without any, this service's own audiences count.
    pub client_ids: Vec<String>,
    /// Of its certificate, as they were given. Certificates are judged by what the system trusts.
    pub thumbprints: Vec<String>,
    /// When it was made.
    pub created: Timestamp,
}

/// A change of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderChange {
    /// Its tokens may be for this client too.
    AddClientId(String),
    /// And no longer for this one.
    RemoveClientId(String),
    /// It has these thumbprints.
    Thumbprints(Vec<String>),
}

/// A provider of an account or tenant, as the catalog has it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct ProviderRecord {
    #[n(0)]
    pub(crate) id: u64,
    #[n(1)]
    pub(crate) url: String,
    #[n(2)]
    pub(crate) tenant: String,
    /// The account, where it is one's.
    #[n(3)]
    pub(crate) account: Option<UserId>,
    #[n(4)]
    pub(crate) client_ids: Vec<String>,
    #[n(5)]
    pub(crate) thumbprints: Vec<String>,
    #[n(6)]
    pub(crate) created: Timestamp,
}

/// Where a provider is found by its id.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct ProviderIndexRecord {
    /// [`ProviderOwner::field`].
    #[n(0)]
    owner: String,
    /// As policies name it.
    #[n(1)]
    name: String,
}

impl From<ProviderRecord> for Provider {
    fn from(record: ProviderRecord) -> Self {
        Self {
            id: record.id,
            url: record.url,
            client_ids: record.client_ids,
            thumbprints: record.thumbprints,
            created: record.created,
        }
    }
}

fn invalid(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, words.into())
}

/// No owner and no name has a space in it.
fn key_of(owner: &str, name: &str) -> Bytes {
    catalog::user_by(PROVIDER, format!("{owner} {name}").as_bytes())
}

fn place_key(id: u64) -> Bytes {
    catalog::user_by(PROVIDER_BY_ID, &id.to_be_bytes())
}

fn check_client_id(id: &str) -> Result<()> {
    let fit = (1..=CLIENT_ID_BYTES_MAX).contains(&id.len()) && !id.chars().any(char::is_control);
    match fit {
        true => Ok(()),
        false => Err(invalid("a client id has 1 to 255 characters")),
    }
}

fn check_client_ids(ids: &[String]) -> Result<()> {
    if ids.len() > CLIENT_IDS_MAX {
        let message = format!("a provider has at most {CLIENT_IDS_MAX} client ids");
        return Err(Error::new(ErrorKind::Quota, message));
    }
    ids.iter().try_for_each(|id| check_client_id(id))
}

fn check_thumbprints(thumbprints: &[String]) -> Result<()> {
    let fit = |text: &String| {
        text.len() == THUMBPRINT_CHARS && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    if thumbprints.len() > THUMBPRINTS_MAX || !thumbprints.iter().all(fit) {
        return Err(invalid(
            "a provider has at most 5 thumbprints of 40 letters and digits each",
        ));
    }
    Ok(())
}

/// Whether a host is one of those that the administrator lists. `*` and `*.domain` never mean this
/// machine, which must be listed by the name that the address has.
fn is_listed(hosts: &[String], url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    let authority = authority.to_ascii_lowercase();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority.as_str(),
    };
    let local = dewar_auth::token::is_loopback(host);
    hosts.iter().any(|listed| {
        let listed = listed.to_ascii_lowercase();
        match listed.strip_prefix('*') {
            Some("") => !local,
            Some(domain) => !local && host.ends_with(domain) && host.len() > domain.len(),
            None => listed == host || listed == authority,
        }
    })
}

impl Accounts {
    /// Takes up what the administrator allows those who let providers in for themselves. By default
    /// that is nothing. Sessions that are open are looked at again.
    pub fn set_federation(&self, config: FederationConfig) {
        *self.federation.config.write() = Arc::new(config);
        self.forget();
    }

    pub(super) fn federation_config(&self) -> Arc<FederationConfig> {
        Arc::clone(&self.federation.config.read())
    }

    /// Makes a provider of an account or tenant.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`], also for an address that the administrator does not allow;
    /// [`ErrorKind::AlreadyExists`]; [`ErrorKind::Quota`] beyond 100.
    pub async fn make_provider(
        &self,
        owner: &ProviderOwner,
        url: &str,
        client_ids: Vec<String>,
        thumbprints: Vec<String>,
    ) -> Result<Provider> {
        check_url(url).map_err(|why| invalid(format!("the provider {why}")))?;
        if !is_listed(&self.federation_config().provider_hosts, url) {
            return Err(invalid(format!(
                "the administrator allows no provider at {url}: federation.provider_hosts lists the \
                 hosts of those that accounts may let in"
            )));
        }
        check_client_ids(&client_ids)?;
        check_thumbprints(&thumbprints)?;
        let record = ProviderRecord {
            id: self.new_id().await?,
            url: url.to_owned(),
            tenant: owner.tenant.as_str().to_owned(),
            account: owner.account,
            client_ids,
            thumbprints,
            created: self.catalog.env().clock.now(),
        };
        let (field, name) = (owner.field(), provider_name(url));
        let place = ProviderIndexRecord {
            owner: field.clone(),
            name: name.to_owned(),
        };
        let _making = self.federation.making.lock().await;
        if self.providers(owner).await?.len() >= PROVIDERS_MAX {
            let message = format!("there are {PROVIDERS_MAX} providers already");
            return Err(Error::new(ErrorKind::Quota, message));
        }
        let puts = vec![
            (key_of(&field, name), encode(&record)),
            (place_key(record.id), encode(&place)),
        ];
        self.add(puts, || exists("provider", name)).await?;
        Ok(record.into())
    }

    /// The providers of an account or tenant, by name.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn providers(&self, owner: &ProviderOwner) -> Result<Vec<Provider>> {
        let range = catalog::KeyRange::prefix(key_of(&owner.field(), ""));
        let values = self.all(&range).await?;
        let read = |(_, value): &(Bytes, Bytes)| decode::<ProviderRecord>(value).map(Into::into);
        values.iter().map(read).collect()
    }

    /// A provider of an account or tenant, by its name as policies have it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn provider(&self, owner: &ProviderOwner, name: &str) -> Result<Provider> {
        let key = key_of(&owner.field(), name);
        let found = self.read::<ProviderRecord>(&key).await?;
        found.map(Into::into).ok_or_else(|| none("provider", name))
    }

    /// Changes a provider. A client id that it has already, or has not any more, is no error.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::InvalidArgument`]; [`ErrorKind::Quota`] beyond 100 client
    /// ids.
    pub async fn change_provider(
        &self,
        owner: &ProviderOwner,
        name: &str,
        change: ProviderChange,
    ) -> Result<()> {
        let edit = |record: &mut ProviderRecord, _: &mut Batch| {
            match &change {
                ProviderChange::AddClientId(id) => {
                    if !record.client_ids.contains(id) {
                        record.client_ids.push(id.clone());
                    }
                    check_client_ids(&record.client_ids)?;
                }
                ProviderChange::RemoveClientId(id) => {
                    record.client_ids.retain(|known| known != id);
                }
                ProviderChange::Thumbprints(thumbprints) => {
                    check_thumbprints(thumbprints)?;
                    record.thumbprints.clone_from(thumbprints);
                }
            }
            Ok(())
        };
        let key = key_of(&owner.field(), name);
        self.edit(&key, || none("provider", name), edit).await
    }

    /// Removes a provider. The sessions that came from its tokens end at once.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn remove_provider(&self, owner: &ProviderOwner, name: &str) -> Result<()> {
        let key = key_of(&owner.field(), name);
        let remove = |record: &mut ProviderRecord, batch: &mut Batch| {
            batch.deletes.push(key.clone());
            batch.deletes.push(place_key(record.id));
            Ok(record.id)
        };
        let id = self.edit(&key, || none("provider", name), remove).await?;
        self.held.drop_on_demand(id);
        Ok(())
    }

    /// A provider as an issuer whose tokens are checked; `None` where there is none of this name and
    /// address, or where the administrator has switched the issuer of this address off or allows its host no longer.
    async fn as_issuer(&self, owner: &str, url: &str) -> Result<Option<Arc<Issuer>>> {
        let key = key_of(owner, provider_name(url));
        let found = self.read::<ProviderRecord>(&key).await?;
        let Some(record) = found.filter(|record| record.url == url) else {
            return Ok(None);
        };
        let issuers = self.issuers().await?;
        if issuers.get(url).is_some_and(|issuer| issuer.disabled) {
            return Ok(None);
        }
        // The administrator may have taken its host off the list since it was made.
        if !is_listed(&self.federation_config().provider_hosts, url) {
            return Ok(None);
        }
        let audiences = match record.client_ids.is_empty() {
            true => self.federation_config().audiences.clone(),
            false => record.client_ids,
        };
        Ok(Some(Arc::new(Issuer {
            id: record.id,
            url: record.url,
            audiences,
            keys_url: None,
            origins: Vec::new(),
            tenant: TenantName::new(&record.tenant)?,
            base: None,
            rules: Vec::new(),
            disabled: false,
        })))
    }

    /// Who vouched for a session: the issuer of this id, or the provider of an account or tenant;
    /// `None` where it does not any more.
    ///
    /// # Errors
    /// Those of the catalog.
    pub(super) async fn voucher(&self, id: u64) -> Result<Option<Arc<Issuer>>> {
        let issuers = self.issuers().await?;
        if let Some(issuer) = issuers.values().find(|issuer| issuer.id == id) {
            return Ok(Some(Arc::clone(issuer)).filter(|issuer| !issuer.disabled));
        }
        let Some(place) = self.read::<ProviderIndexRecord>(&place_key(id)).await? else {
            return Ok(None);
        };
        let key = key_of(&place.owner, &place.name);
        let Some(record) = self.read::<ProviderRecord>(&key).await? else {
            return Ok(None);
        };
        let issuer = self.as_issuer(&place.owner, &record.url).await?;
        Ok(issuer.filter(|issuer| issuer.id == id))
    }

    /// The ids of all providers of a name, whosever they are.
    pub(super) async fn provider_ids(&self, name: &str) -> Result<Vec<u64>> {
        let range = catalog::KeyRange::prefix(catalog::user_by(PROVIDER, b""));
        let mut found = Vec::new();
        for (_, value) in self.all(&range).await? {
            let record: ProviderRecord = decode(&value)?;
            if provider_name(&record.url) == provider_name(name) {
                found.push(record.id);
            }
        }
        Ok(found)
    }

    /// Proves a login token that is to become a role: by the provider that the role's account or
    /// tenant (`owner`, as its ARN has it) let in for itself, else by an issuer of the server.
    ///
    /// # Errors
    /// As [`Accounts::prove`].
    pub(super) async fn prove_for(
        &self,
        owner: &str,
        token: &str,
    ) -> Result<std::result::Result<(Arc<Issuer>, VerifiedToken), TokenError>> {
        let jws = match Jws::parse(token) {
            Ok(jws) => jws,
            Err(error) => return Ok(Err(error)),
        };
        let url = match claimed_issuer(&jws) {
            Ok(url) => url,
            Err(error) => return Ok(Err(error)),
        };
        let Some(provider) = self.as_issuer(owner, &url).await? else {
            return self.prove(token).await;
        };
        self.held.demand(&provider, owner);
        let proven = self.prove_by(&provider, &jws).await?;
        if proven.is_err() && self.issuers().await?.contains_key(&url) {
            return self.prove(token).await;
        }
        Ok(proven)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_provider_of_version_1_opens() {
        let record = ProviderRecord {
            id: 7,
            url: "https://idp.example.org/realms/lab".into(),
            tenant: "atlas".into(),
            account: Some(UserId(5)),
            client_ids: vec!["portal".into()],
            thumbprints: vec!["0123456789abcdef0123456789abcdef01234567".into()],
            created: Timestamp(1_800_000_000_000_000_000),
        };
        let sample = include_str!("../../testdata/accounts-v1/provider.hex").trim();
        assert_eq!(hex(&encode(&record)), sample);
        let bytes: Vec<u8> = (0..sample.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&sample[at..at + 2], 16).expect("hex"))
            .collect();
        assert_eq!(decode::<ProviderRecord>(&bytes).expect("opens"), record);
    }

    #[test]
    fn only_hosts_that_are_listed_are_asked() {
        let listed = |hosts: &[&str], url: &str| {
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            is_listed(&hosts, url)
        };
        assert!(!listed(&[], "https://idp.example.org"));
        assert!(listed(&["idp.example.org"], "https://IDP.example.org/x"));
        assert!(listed(
            &["idp.example.org"],
            "https://idp.example.org:8443/x"
        ));
        assert!(listed(
            &["idp.example.org:8443"],
            "https://idp.example.org:8443/x"
        ));
        assert!(!listed(
            &["idp.example.org:8443"],
            "https://idp.example.org/x"
        ));
        assert!(listed(&["*.example.org"], "https://idp.example.org"));
        assert!(!listed(&["*.example.org"], "https://.example.org"));
        assert!(!listed(
            &["*.example.org"],
            "https://idp.example.org.evil.net"
        ));
        assert!(listed(&["*"], "https://idp.example.org"));
        for local in [
            "http://localhost:8080/r",
            "http://127.0.0.1/r",
            "https://[::1]/r",
        ] {
            assert!(!listed(&["*"], local), "{local}");
        }
        assert!(listed(&["localhost:8080"], "http://localhost:8080/r"));
        assert!(!listed(&["localhost:8080"], "http://localhost:9000/r"));
        assert!(listed(&["[::1]"], "http://[::1]/r"));
    }
}
