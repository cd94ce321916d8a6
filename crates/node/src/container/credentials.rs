//! The user's credentials for stores, which downloads of this node use as any command of the user's shell would.
//!
//! They go into the environment of the process that downloads, and nowhere else: not into the pod, and not into other
//! containers.

use std::{collections::BTreeMap, fmt};

/// The variables of one kind of store. An entry that ends in `*` is a prefix.
struct Family {
    /// The variables that a download inherits.
    inherited: &'static [&'static str],
    /// Further variables that say which credentials to use. If the pod has one of them or of the inherited ones, it has
    /// credentials of its own, and mixing them with those of the user would make neither work.
    decisive: &'static [&'static str],
}

const FAMILIES: [Family; 2] = [
    Family { inherited: &["AWS_*"], decisive: &["awsAnonymousCredential", "STORAGE_CONFIG"] },
    Family {
        inherited: &["GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"],
        decisive: &["STORAGE_CONFIG"],
    },
];

/// Variables with the path of a file. Downloads start in other folders than this process.
const FILES: [&str; 5] = [
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
];

/// The user's credentials.
#[derive(Default)]
pub(crate) struct Credentials(BTreeMap<String, String>);

/// Shows the names only, because the values are secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Family {
    fn has(&self, name: &str) -> bool {
        listed(self.inherited, name)
    }

    fn decides(&self, name: &str) -> bool {
        self.has(name) || listed(self.decisive, name)
    }
}

/// Whether a list has a name. An entry that ends in `*` is a prefix.
pub(super) fn listed(list: &[&str], name: &str) -> bool {
    list.iter().any(|entry| entry.strip_suffix('*').map_or(*entry == name, |prefix| name.starts_with(prefix)))
}

impl Credentials {
    /// Keeps a variable of the user if it is a credential.
    pub(crate) fn take(&mut self, name: &str, value: &str) {
        if value.is_empty() || !FAMILIES.iter().any(|family| family.has(name)) {
            return;
        }
        let absolute = std::path::absolute(value).ok().filter(|_| FILES.contains(&name));
        let value = absolute.map_or_else(|| value.to_owned(), |path| path.to_string_lossy().into_owned());
        self.0.insert(name.to_owned(), value);
    }

    /// Adds the credentials to the environment of a download, unless the pod has its own for this kind of store.
    pub(crate) fn give(&self, pod: &BTreeMap<String, String>, environment: &mut BTreeMap<String, String>) {
        for family in &FAMILIES {
            if pod.keys().any(|name| family.decides(name)) {
                // Containers of a user's own engine inherit everything.
                environment.retain(|name, _| !family.has(name) || pod.contains_key(name));
                continue;
            }
            let given = self.0.iter().filter(|(name, _)| family.has(name));
            environment.extend(given.map(|(name, value)| (name.clone(), value.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// Returns the environment of a download in a pod with these variables.
    fn given(pod: &[(&str, &str)]) -> BTreeMap<String, String> {
        let mut credentials = Credentials::default();
        for (name, value) in [
            ("AWS_ACCESS_KEY_ID", "AKIA"),
            ("AWS_SESSION_TOKEN", "token"),
            ("AWS_PROFILE", ""),
            ("GOOGLE_APPLICATION_CREDENTIALS", "keys/g.json"),
            ("GITHUB_TOKEN", "other"),
        ] {
            credentials.take(name, value);
        }
        assert!(!format!("{credentials:?}").contains("AKIA"));
        // With an engine of the user's, the token is inherited already.
        let mut environment = map(&[("AWS_SESSION_TOKEN", "token")]);
        environment.extend(map(pod));
        credentials.give(&map(pod), &mut environment);
        environment
    }

    #[test]
    fn a_download_has_the_credentials_of_the_user() {
        let google = std::path::absolute("keys/g.json").unwrap().display().to_string();
        let expected = map(&[
            ("AWS_ACCESS_KEY_ID", "AKIA"),
            ("AWS_SESSION_TOKEN", "token"),
            ("GOOGLE_APPLICATION_CREDENTIALS", &google),
            ("HF_TOKEN", "of the pod"),
        ]);
        assert_eq!(given(&[("HF_TOKEN", "of the pod")]), expected);
    }

    #[test]
    fn credentials_of_the_pod_are_not_mixed_with_those_of_the_user() {
        for own in ["AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "awsAnonymousCredential"] {
            let environment = given(&[(own, "pod")]);
            assert_eq!(environment[own], "pod");
            assert!(!environment.contains_key("AWS_SESSION_TOKEN"), "{own}");
            assert!(environment.contains_key("GOOGLE_APPLICATION_CREDENTIALS"), "{own}");
        }
        assert_eq!(given(&[("STORAGE_CONFIG", "{}")]), map(&[("STORAGE_CONFIG", "{}")]));
        let environment = given(&[("GOOGLE_APPLICATION_CREDENTIALS", "/var/secrets/g.json")]);
        assert_eq!(environment["GOOGLE_APPLICATION_CREDENTIALS"], "/var/secrets/g.json");
        assert_eq!(environment["AWS_ACCESS_KEY_ID"], "AKIA");
    }
}
