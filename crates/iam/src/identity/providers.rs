//! OpenID Connect providers of the caller's account; of its tenant, for who manages that.
//!
//! A manager of a tenant also sees the issuers that the administrator let in for it, and cannot
//! change them here: their tokens count at every door.

use std::sync::Arc;

use dewar_auth::Action;
use dewar_auth::token::{Issuer, provider_name};
use dewar_types::{Error, ErrorKind, Result, Timestamp, UserId};

use super::Identities;
use crate::accounts::{Provider, ProviderChange, ProviderOwner};

/// An OpenID Connect provider, as the IAM API has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderInfo {
    /// `arn:aws:iam::ACCOUNT:oidc-provider/HOST/PATH`.
    pub arn: String,
    /// The value of `iss` in its tokens.
    pub url: String,
    /// Whom its tokens may be for.
    pub client_ids: Vec<String>,
    /// As they were given.
    pub thumbprints: Vec<String>,
    /// When it was let in.
    pub created: Timestamp,
}

fn not_found(arn: &str) -> Error {
    let message = format!("there is no OpenID Connect provider {arn:?}");
    Error::new(ErrorKind::NotFound, message)
}

impl Identities<'_> {
    /// Whose the providers are that the caller makes and sees.
    fn provider_owner(&self) -> ProviderOwner {
        ProviderOwner {
            tenant: self.tenant.clone(),
            account: (!self.manages_tenant()).then_some(self.account),
        }
    }

    fn provider_arn(&self, name: &str) -> String {
        let owner = self.provider_owner().field();
        format!("arn:aws:iam::{owner}:oidc-provider/{name}")
    }

    fn authorize_provider(&self, action: Action, name: &str) -> Result<()> {
        let path = format!("oidc-provider/{name}");
        match self.manages_tenant() {
            // No account's.
            true => self.authorize_in_tenant(action, UserId(0), &path),
            false => self.authorize_own(action, &path),
        }
    }

    /// The issuers of the server that the caller sees as providers.
    async fn issuers_of_tenant(&self) -> Result<Vec<(Arc<Issuer>, Timestamp)>> {
        if !self.manages_tenant() {
            return Ok(Vec::new());
        }
        let all = self.accounts.issuer_list().await?.into_iter();
        let own = all.filter(|info| info.issuer.tenant == self.tenant);
        Ok(own.map(|info| (info.issuer, info.created)).collect())
    }

    async fn issuer_of_tenant(&self, name: &str) -> Result<Option<(Arc<Issuer>, Timestamp)>> {
        let all = self.issuers_of_tenant().await?.into_iter();
        Ok(all.into_iter().find(|(issuer, _)| issuer.name() == name))
    }

    fn provider_info(&self, provider: Provider) -> ProviderInfo {
        ProviderInfo {
            arn: self.provider_arn(provider_name(&provider.url)),
            url: provider.url,
            client_ids: provider.client_ids,
            thumbprints: provider.thumbprints,
            created: provider.created,
        }
    }

    fn issuer_info(&self, issuer: &Issuer, created: Timestamp) -> ProviderInfo {
        ProviderInfo {
            arn: self.provider_arn(issuer.name()),
            url: issuer.url.clone(),
            client_ids: issuer.audiences.clone(),
            thumbprints: Vec::new(),
            created,
        }
    }

    /// The name in the ARN of a provider of the caller's.
    fn name_in<'arn>(&self, arn: &'arn str) -> Result<&'arn str> {
        let name = arn.strip_prefix(&self.provider_arn(""));
        name.filter(|name| !name.is_empty())
            .ok_or_else(|| not_found(arn))
    }

    /// Lets a provider in for the roles of the account.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::AlreadyExists`], [`ErrorKind::Quota`];
    /// [`ErrorKind::InvalidArgument`], also for a host that the administrator does not allow.
    pub async fn create_provider(
        &self,
        url: &str,
        client_ids: Vec<String>,
        thumbprints: Vec<String>,
    ) -> Result<ProviderInfo> {
        let name = provider_name(url);
        self.authorize_provider(Action::CreateOpenIdConnectProvider, name)?;
        if self.issuer_of_tenant(name).await?.is_some() {
            let message = format!("provider {name} exists already");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let owner = self.provider_owner();
        let made = self
            .accounts
            .make_provider(&owner, url, client_ids, thumbprints)
            .await?;
        Ok(self.provider_info(made))
    }

    /// A provider by its ARN.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`].
    pub async fn provider(&self, arn: &str) -> Result<ProviderInfo> {
        let name = self.name_in(arn)?;
        self.authorize_provider(Action::GetOpenIdConnectProvider, name)?;
        if let Some((issuer, created)) = self.issuer_of_tenant(name).await? {
            return Ok(self.issuer_info(&issuer, created));
        }
        let owner = self.provider_owner();
        let found = self.accounts.provider(&owner, name).await;
        let found = found.map_err(|error| match error.kind() {
            ErrorKind::NotFound => not_found(arn),
            _ => error,
        })?;
        Ok(self.provider_info(found))
    }

    /// All providers, by ARN.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub async fn list_providers(&self) -> Result<Vec<ProviderInfo>> {
        self.authorize_provider(Action::ListOpenIdConnectProviders, "")?;
        let owner = self.provider_owner();
        let own = self.accounts.providers(&owner).await?.into_iter();
        let mut all: Vec<_> = own.map(|provider| self.provider_info(provider)).collect();
        let issuers = self.issuers_of_tenant().await?.into_iter();
        all.extend(issuers.map(|(issuer, created)| self.issuer_info(&issuer, created)));
        all.sort_by(|a, b| a.arn.cmp(&b.arn));
        all.dedup_by(|a, b| a.arn == b.arn);
        Ok(all)
    }

    /// The name of a provider that is to be changed, for who may do `action`.
    async fn provider_to_change<'arn>(&self, action: Action, arn: &'arn str) -> Result<&'arn str> {
        let name = self.name_in(arn)?;
        self.authorize_provider(action, name)?;
        if self.issuer_of_tenant(name).await?.is_some() {
            let message =
                format!("{name} is an issuer of the server: the administrator changes it");
            return Err(Error::new(ErrorKind::Denied, message));
        }
        Ok(name)
    }

    /// Changes a provider.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], also for an issuer of the server; [`ErrorKind::NotFound`],
    /// [`ErrorKind::InvalidArgument`], [`ErrorKind::Quota`].
    pub async fn change_provider(&self, arn: &str, change: ProviderChange) -> Result<()> {
        let action = match &change {
            ProviderChange::AddClientId(_) => Action::AddClientIdToOpenIdConnectProvider,
            ProviderChange::RemoveClientId(_) => Action::RemoveClientIdFromOpenIdConnectProvider,
            ProviderChange::Thumbprints(_) => Action::UpdateOpenIdConnectProviderThumbprint,
        };
        let name = self.provider_to_change(action, arn).await?;
        let owner = self.provider_owner();
        self.accounts.change_provider(&owner, name, change).await
    }

    /// Removes a provider. The sessions that came from it end at once.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], also for an issuer of the server; [`ErrorKind::NotFound`].
    pub async fn delete_provider(&self, arn: &str) -> Result<()> {
        let action = Action::DeleteOpenIdConnectProvider;
        let name = self.provider_to_change(action, arn).await?;
        let owner = self.provider_owner();
        self.accounts.remove_provider(&owner, name).await
    }
}
