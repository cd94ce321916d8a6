//! The environment of the download container for an S3 endpoint.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::EnvVar};
use longboat_compose::platform::S3Credentials;

use crate::env::literal;

type Annotations = BTreeMap<String, String>;

/// Where a setting may come from: an annotation of the secret or account, a key of the secret, or the platform's default.
pub(super) struct Source<'a> {
    pub(super) annotations: Option<&'a Annotations>,
    pub(super) data: Option<&'a BTreeMap<String, ByteString>>,
    pub(super) platform: &'a S3Credentials,
}

// === impl Source ===

impl Source<'_> {
    fn setting(&self, annotation: &str, key: &str, default: &str) -> Option<String> {
        let annotation = format!("serving.kserve.io/s3-{annotation}");
        let from_annotation = self.annotations.and_then(|all| all.get(&annotation)).cloned();
        let from_data = || Some(String::from_utf8_lossy(&self.data?.get(key)?.0).into_owned());
        from_annotation
            .or_else(from_data)
            .or_else(|| Some(default.to_owned()))
            .filter(|value| !value.is_empty())
    }

    /// The variables, in the order in which the reference writes them.
    pub(super) fn env(&self) -> Vec<EnvVar> {
        let platform = self.platform;
        let mut env = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                env.push(literal(name, &value));
            }
        };
        if let Some(endpoint) = self.setting("endpoint", "S3_ENDPOINT", &platform.s3_endpoint) {
            let configured = self.setting("usehttps", "S3_USE_HTTPS", &platform.s3_use_https);
            let (use_https, host) = match endpoint.split_once("://") {
                Some(("https", host)) => (Some("1".to_owned()), host),
                Some(("http", host)) => (Some("0".to_owned()), host),
                _ => (configured, endpoint.as_str()),
            };
            let scheme = if use_https.as_deref() == Some("0") { "http" } else { "https" };
            let url = format!("{scheme}://{host}");
            add("S3_USE_HTTPS", use_https);
            add("S3_ENDPOINT", Some(host.to_owned()));
            add("AWS_ENDPOINT_URL", Some(url));
        }
        for (annotation, name, default) in [
            ("verifyssl", "S3_VERIFY_SSL", &platform.s3_verify_ssl),
            ("useanoncredential", "awsAnonymousCredential", &platform.s3_use_anonymous_credential),
            ("region", "AWS_DEFAULT_REGION", &platform.s3_region),
            // `USER` is the spelling of the reference, so downloaders read this name.
            ("usevirtualbucket", "S3_USER_VIRTUAL_BUCKET", &platform.s3_use_virtual_bucket),
            ("useaccelerate", "S3_USE_ACCELERATE", &platform.s3_use_accelerate),
            ("cabundle", "AWS_CA_BUNDLE", &platform.s3_ca_bundle),
            ("cabundle-configmap", "AWS_CA_BUNDLE_CONFIGMAP", &platform.s3_ca_bundle_config_map),
        ] {
            add(name, self.setting(annotation, name, default));
        }
        env
    }
}
