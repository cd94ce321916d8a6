//! Tokens of service accounts. They are valid until this process ends.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::request::User;

/// The most tokens to hold. Each account has one token, so one machine's accounts never need this many.
const MOST: usize = 65_536;

/// Maps tokens to service accounts and back.
#[derive(Default)]
pub(crate) struct Accounts(Mutex<Tables>);

#[derive(Default)]
struct Tables {
    by_token: HashMap<String, (String, String)>,
    by_account: HashMap<(String, String), String>,
}

// === impl Accounts ===

impl Accounts {
    /// Returns the token of an account, the same at each call. Returns `None` if there are too many tokens.
    pub(crate) fn token(&self, namespace: &str, name: &str) -> Option<String> {
        let mut tables = self.0.lock();
        let account = (namespace.to_owned(), name.to_owned());
        if let Some(token) = tables.by_account.get(&account) {
            return Some(token.clone());
        }
        if tables.by_account.len() >= MOST {
            return None;
        }
        let token = format!("sa-{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        tables.by_token.insert(token.clone(), account.clone());
        tables.by_account.insert(account, token.clone());
        Some(token)
    }

    /// Returns the user to whom a token belongs. The time of the map lookup reveals little about a token of 244 random bits.
    pub(crate) fn owner(&self, token: &str) -> Option<User> {
        self.0.lock().by_token.get(token).map(|(namespace, name)| User::account(namespace, name))
    }
}

#[cfg(test)]
mod tests {
    use super::Accounts;

    #[test]
    fn an_account_has_one_token_and_a_token_one_account() {
        let accounts = Accounts::default();
        let token = accounts.token("ns", "a").unwrap();
        assert_eq!(accounts.token("ns", "a").as_ref(), Some(&token));
        assert_ne!(accounts.token("other", "a"), Some(token.clone()));
        assert_eq!(accounts.owner(&token).unwrap().name, "system:serviceaccount:ns:a");
        assert!(accounts.owner("sa-").is_none());
    }
}
