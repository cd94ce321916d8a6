//! Tokens of service accounts: JSON Web Tokens, signed with a key of this process, so none outlives it. The server stores no
//! token.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::hmac;
use serde_json::{Value, json};

use crate::store::Key;

/// The audience of this server, which tokens have unless their request names others. It is the issuer, too.
pub(crate) const OWN_AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

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
    pub(crate) fn read(&self, token: &str) -> Option<Grant> {
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
