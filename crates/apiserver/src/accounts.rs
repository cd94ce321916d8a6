//! Tokens of service accounts: JSON Web Tokens, signed with a key of this process, so none outlives it. The server stores no
//! token. Each use checks that the account and the pod of the token still exist.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use longboat_patch::gofmt;
use ring::hmac;
use serde_json::{Value, json};

use crate::{
    request::User,
    server::State,
    store::{Key, StoredObject},
};

/// The audience of this server, which tokens have unless their request names others. It is the issuer, too.
pub(crate) const OWN_AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";
/// How much later than its expiry a token is refused, because clocks differ. kube-apiserver tolerates as much.
const LEEWAY: SignedDuration = SignedDuration::from_mins(1);

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) account: Key,
    /// The uid of the account. A new account of the same name does not inherit its tokens.
    pub(crate) uid: String,
    /// The pod with which the token ends, and its uid.
    pub(crate) pod: Option<(String, String)>,
    pub(crate) audiences: Vec<String>,
    pub(crate) expires: Timestamp,
}

/// A user who has proved who they are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TokenIdentity {
    pub(crate) user: User,
    /// Those of the requested audiences that the token is for.
    pub(crate) audiences: Vec<String>,
}

/// Signs tokens.
pub(crate) struct Issuer(hmac::Key);

// === impl Issuer ===

impl Default for Issuer {
    fn default() -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &rand::random::<[u8; 32]>()))
    }
}

impl Issuer {
    /// Issues a token.
    pub(crate) fn issue(&self, grant: &Grant, now: Timestamp) -> String {
        let Key { namespace, name } = &grant.account;
        let mut bound = json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": grant.uid}});
        if let Some((name, uid)) = &grant.pod {
            bound["pod"] = json!({"name": name, "uid": uid});
        }
        let claims = json!({
            "aud": grant.audiences,
            "exp": grant.expires.as_second(),
            "iat": now.as_second(),
            "iss": OWN_AUDIENCE,
            "jti": uuid::Uuid::new_v4().to_string(),
            "kubernetes.io": bound,
            "nbf": now.as_second(),
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
        });
        let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&json!({"alg": "HS256"})), encode(&claims));
        let signature = hmac::sign(&self.0, signed.as_bytes());
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }

    /// Returns what a token is for, if this issuer has signed it.
    fn read(&self, token: &str) -> Option<Grant> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.0, signed.as_bytes(), &signature).ok()?;
        let (_, claims) = signed.split_once('.')?;
        let claims: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        let bound = &claims["kubernetes.io"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let named = |value: &Value| Some((text(&value["name"])?, text(&value["uid"])?));
        let (name, uid) = named(&bound["serviceaccount"])?;
        Some(Grant {
            account: Key::new(text(&bound["namespace"])?, name),
            uid,
            pod: named(&bound["pod"]),
            audiences: claims["aud"].as_array()?.iter().filter_map(text).collect(),
            expires: Timestamp::from_second(claims["exp"].as_i64()?).ok()?,
        })
    }
}

// === impl Grant ===

impl Grant {
    /// Checks that the token has not expired, and that what it is bound to exists. The error has kube-apiserver's text.
    fn check(&self, state: &State, now: Timestamp) -> Result<(), String> {
        if now.duration_since(self.expires) > LEEWAY {
            return Err("service account token has expired".to_owned());
        }
        let uid_of =
            |stored: &StoredObject| stored.value["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
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
    let found =
        state.registry.find("", "v1", plural).and_then(|resource| state.store.get(&resource.table, key));
    found.ok_or_else(|| format!("{plural} {} not found", gofmt::quoted(&key.name)))
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
            let words: Vec<String> = list.into_iter().map(gofmt::quoted).collect();
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
        server.state.store.create(&table, Key::new("n", "a"), account).unwrap();
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
