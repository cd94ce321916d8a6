//! Authenticates the tokens of service accounts. Each use checks that the account and the pod of the token still exist.

use jiff::{SignedDuration, Timestamp};
use longboat_patch::gofmt;
use serde_json::Value;

use crate::{
    request::User,
    state::State,
    store::{Key, StoredObject},
    tokens::{Grant, OWN_AUDIENCE},
};

/// How much later than its expiry a token is refused, because clocks differ. kube-apiserver tolerates as much.
const LEEWAY: SignedDuration = SignedDuration::from_mins(1);

/// A user who has proved who they are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TokenIdentity {
    pub(crate) user: User,
    /// Those of the requested audiences that the token is for.
    pub(crate) audiences: Vec<String>,
}

// === impl Grant ===

impl Grant {
    /// Checks that the token has not expired, and that what it is bound to exists. The error has kube-apiserver's text.
    fn check(&self, state: &State, now: Timestamp) -> Result<(), String> {
        if now.duration_since(self.expires) > LEEWAY {
            return Err("service account token has expired".to_owned());
        }
        let uid_of = |stored: &StoredObject| stored.metadata()["uid"].as_str().unwrap_or_default().to_owned();
        let account = find(state, "serviceaccounts", &self.account)?;
        if uid_of(&account) != self.uid {
            return Err(format!(
                "service account UID ({}) does not match claim ({})",
                uid_of(&account),
                self.uid
            ));
        }
        if let Some((name, uid)) = &self.pod {
            let pod = find(state, "pods", &Key::new(self.account.namespace.as_str(), name.as_str()))?;
            if uid_of(&pod) != *uid {
                return Err(format!(
                    "pod UID ({}) does not match service account pod ref claim",
                    uid_of(&pod)
                ));
            }
        }
        Ok(())
    }
}

/// Returns an object of the core group that a token is bound to.
pub(crate) fn find(state: &State, plural: &str, key: &Key) -> Result<std::sync::Arc<StoredObject>, String> {
    state
        .store
        .get(&format!("/{plural}"), key)
        .ok_or_else(|| format!("{plural} {} not found", gofmt::quote(&key.name)))
}

/// Returns the user of a token that is for one of the audiences. The error has kube-apiserver's text.
pub(crate) fn authenticate(state: &State, token: &str, audiences: &[&str]) -> Result<TokenIdentity, String> {
    let unknown = || "invalid bearer token".to_owned();
    let common = |of_token: &[String]| -> Vec<String> {
        of_token.iter().filter(|audience| audiences.contains(&audience.as_str())).cloned().collect()
    };
    if let Some(expected) = &state.options.token
        && same(token.as_bytes(), expected.as_bytes())
    {
        let audiences = common(&[OWN_AUDIENCE.to_owned()]);
        let user = User::administrator();
        return if audiences.is_empty() { Err(unknown()) } else { Ok(TokenIdentity { user, audiences }) };
    }
    let grant = state.issuer.read(token).ok_or_else(unknown)?;
    let common = common(&grant.audiences);
    if common.is_empty() {
        let printed = |list: Vec<&str>| {
            let words: Vec<String> = list.into_iter().map(gofmt::quote).collect();
            format!("[{}]", words.join(" "))
        };
        return Err(format!(
            "token audiences {} is invalid for the target audiences {}",
            printed(grant.audiences.iter().map(String::as_str).collect()),
            printed(audiences.to_vec())
        ));
    }
    grant.check(state, Timestamp::now())?;
    let user = User::account(&grant.account.namespace, &grant.account.name);
    Ok(TokenIdentity { user, audiences: common })
}

/// Returns the audiences of a list in a request, or this server's if the list is empty.
pub(crate) fn audiences_or_own(list: &Value) -> Vec<&str> {
    let given: Vec<&str> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if given.is_empty() { vec![OWN_AUDIENCE] } else { given }
}

/// Compares in constant time.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (x, y)| all | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;

    use super::*;
    use crate::{ApiServer, Options};

    #[test]
    fn a_token_expires_a_minute_after_its_time() {
        let server = ApiServer::new(Options::default()).unwrap();
        let now = Timestamp::now();
        let account = serde_json::json!({"metadata": {"namespace": "n", "name": "a", "uid": "u"}});
        let table = server.state.registry.find("", "v1", "serviceaccounts").unwrap().table.clone();
        server.state.store.create(&table, Key::new("n", "a"), account, &[]).unwrap();
        let grant = Grant {
            account: Key::new("n", "a"),
            uid: "u".to_owned(),
            pod: None,
            audiences: vec![OWN_AUDIENCE.to_owned()],
            expires: now,
        };
        let state = &server.state;
        assert_eq!(grant.check(state, now.saturating_add(60.seconds()).unwrap()), Ok(()));
        let late = grant.check(state, now.saturating_add(61.seconds()).unwrap());
        assert_eq!(late, Err("service account token has expired".to_owned()));

        let token = state.issuer.issue(&grant, now);
        assert_eq!(state.issuer.read(&token).as_ref().map(|grant| &grant.account), Some(&grant.account));
        let known = authenticate(state, &token, &[OWN_AUDIENCE]).unwrap();
        assert_eq!(known.user.name, "system:serviceaccount:n:a");
        let expired = state.issuer.issue(&Grant { expires: Timestamp::UNIX_EPOCH, ..grant }, now);
        let error = |token: &str| authenticate(state, token, &[OWN_AUDIENCE]).unwrap_err();
        assert_eq!(error(&expired), "service account token has expired");
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let (_, late) = expired.rsplit_once('.').unwrap();
        for forged in
            ["", "sa-", ".", "..", signed, &format!("{signed}.{late}"), &format!("{signed}x.{signature}")]
        {
            assert_eq!(error(forged), "invalid bearer token", "{forged}");
        }
    }
}
