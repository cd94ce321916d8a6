//! Credentials for the download container, from the secrets of its service account.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{
        Container, EnvVar, EnvVarSource, PodSpec, Secret, SecretKeySelector, SecretVolumeSource,
        ServiceAccount, Volume, VolumeMount,
    },
};
use longboat_compose::platform::Platform;
use longboat_download::address::{Address, Scheme};
use longboat_key::{Name, Namespace};

use super::{
    attachment::{Attachment, StorageError},
    s3,
};
use crate::{
    env::{self, literal},
    workload::pod_spec::{add_mount, add_volume},
};

const IAM_ROLE: &str = "eks.amazonaws.com/role-arn";

/// The entries of Secrets, unless the platform has other names for them.
const S3_KEY_ID: &str = "awsAccessKeyID";
const S3_SECRET_KEY: &str = "awsSecretAccessKey";
const GCS_FILE: &str = "gcloud-application-credentials.json";

/// Adds the credentials in the account's secrets. The keys of a secret determine its kind; the model's scheme does not
/// matter.
pub(super) fn add(
    pod: &mut PodSpec,
    container: &mut Container,
    account: &ServiceAccount,
    attachment: &Attachment,
) -> Result<(), StorageError> {
    let credentials = &attachment.platform.credentials;
    if let Some(annotations) = account.metadata.annotations.as_ref().filter(|all| all.contains_key(IAM_ROLE))
    {
        let source = s3::Source { annotations: Some(annotations), data: None, platform: &credentials.s3 };
        container.env.get_or_insert_default().extend(source.env());
    }
    let annotation = Some(&credentials.storage_secret_name_annotation).filter(|key| !key.is_empty());
    let annotated = annotation.and_then(|key| attachment.service.metadata.annotations.as_ref()?.get(key));
    let names: Vec<&str> = match annotated {
        Some(name) => vec![name],
        None => account.secrets.iter().flatten().filter_map(|reference| reference.name.as_deref()).collect(),
    };
    for name in names {
        let secret = attachment
            .secrets
            .get(attachment.namespace, Name(name))
            .ok_or_else(|| StorageError::SecretNotFound(name.to_owned()))?;
        add_secret(pod, container, name, secret, attachment.platform);
    }
    if container.env.as_ref().is_some_and(Vec::is_empty) {
        container.env = None;
    }
    Ok(())
}

/// Returns the command that creates a Secret with the credentials for a model at this address, or `None` for an address without.
pub fn secret_command(
    platform: &Platform,
    namespace: Namespace<&str>,
    name: &str,
    address: &Address,
) -> Option<String> {
    let credentials = &platform.credentials;
    let entries = match address.scheme() {
        Scheme::HuggingFace => r#"--from-literal=HF_TOKEN="$HF_TOKEN""#.to_owned(),
        Scheme::S3 => format!(
            r#"--from-literal={}="$AWS_ACCESS_KEY_ID" --from-literal={}="$AWS_SECRET_ACCESS_KEY""#,
            or(&credentials.s3.s3_access_key_id_name, S3_KEY_ID),
            or(&credentials.s3.s3_secret_access_key_name, S3_SECRET_KEY)
        ),
        Scheme::Gcs => {
            format!("--from-file={}=KEY.json", or(&credentials.gcs.gcs_credential_file_name, GCS_FILE))
        }
        Scheme::Https | Scheme::Http => format!(
            r#"--from-literal=https-host={} --from-literal=headers='{{"Authorization": "Bearer TOKEN"}}'"#,
            address.host()
        ),
        _ => return None,
    };
    Some(format!("kubectl create secret generic -n {namespace} {name} {entries}"))
}

/// Whether a download gets something from a Secret.
pub fn has_credentials(platform: &Platform, secret: &Secret) -> bool {
    let (mut pod, mut container) = (PodSpec::default(), Container::default());
    add_secret(&mut pod, &mut container, "", secret, platform);
    container.env.is_some() || container.volume_mounts.is_some()
}

fn or<'a>(configured: &'a str, fallback: &'a str) -> &'a str {
    if configured.is_empty() { fallback } else { configured }
}

fn add_secret(
    pod: &mut PodSpec,
    container: &mut Container,
    name: &str,
    secret: &Secret,
    platform: &Platform,
) {
    let credentials = &platform.credentials;
    let none = BTreeMap::new();
    let data = secret.data.as_ref().unwrap_or(&none);
    let has = |key: &str| data.contains_key(key);
    let s3_secret_key = or(&credentials.s3.s3_secret_access_key_name, S3_SECRET_KEY);
    let gcs_file = or(&credentials.gcs.gcs_credential_file_name, GCS_FILE);

    // A secret is of one kind: the first whose keys it has, in the order of the reference.
    if has(s3_secret_key) {
        let s3_key_id = or(&credentials.s3.s3_access_key_id_name, S3_KEY_ID);
        env::set(container, from_secret("AWS_ACCESS_KEY_ID", name, s3_key_id));
        env::set(container, from_secret("AWS_SECRET_ACCESS_KEY", name, s3_secret_key));
        let annotations = secret.metadata.annotations.as_ref();
        for variable in (s3::Source { annotations, data: Some(data), platform: &credentials.s3 }).env() {
            env::set(container, variable);
        }
    } else if has(gcs_file) {
        mount_secret(pod, container, "user-gcp-sa", name, "/var/secrets/");
        env::set(container, literal("GOOGLE_APPLICATION_CREDENTIALS", &format!("/var/secrets/{gcs_file}")));
    } else if has("AZ_CLIENT_ID") || has("AZURE_CLIENT_ID") || has("AZURE_ACCESS_TOKEN") {
        azure(container, name, data);
    } else if has("AZURE_STORAGE_ACCESS_KEY") {
        env::set(container, from_secret("AZURE_STORAGE_ACCESS_KEY", name, "AZURE_STORAGE_ACCESS_KEY"));
    } else if let Some(host) = data.get("https-host") {
        // The headers stay in the secret, so that the right to read pods does not reveal them. The name of the variable has
        // only the host, by which downloaders find it.
        let variable = format!("{}-headers", text(host));
        let variable =
            if has("headers") { from_secret(&variable, name, "headers") } else { literal(&variable, "") };
        replace_env(container, variable);
    } else if has("HDFS_NAMENODE") {
        mount_secret(pod, container, "hdfs-secrets", name, "/var/secrets/kserve-hdfscreds");
    } else if let Some(token) = ["HF_TOKEN", "MODELSCOPE_API_TOKEN"].into_iter().find(|key| has(key)) {
        env::set(container, from_secret(token, name, token));
    }
}

/// The tenant is always required. The other variables are set if the secret has them, under the current or the former key.
fn azure(container: &mut Container, secret: &str, data: &BTreeMap<String, ByteString>) {
    const KEYS: [(&str, &str); 5] = [
        ("AZURE_SUBSCRIPTION_ID", "AZ_SUBSCRIPTION_ID"),
        ("AZURE_TENANT_ID", "AZ_TENANT_ID"),
        ("AZURE_CLIENT_ID", "AZ_CLIENT_ID"),
        ("AZURE_CLIENT_SECRET", "AZ_CLIENT_SECRET"),
        ("AZURE_ACCESS_TOKEN", "AZURE_ACCESS_TOKEN"),
    ];
    for (present, former) in KEYS {
        let key = if data.contains_key(present) {
            present
        } else if data.contains_key(former) {
            former
        } else if present == "AZURE_TENANT_ID" {
            present
        } else {
            continue;
        };
        env::set(container, from_secret(present, secret, key));
    }
}

fn text(bytes: &ByteString) -> String {
    String::from_utf8_lossy(&bytes.0).into_owned()
}

fn from_secret(name: &str, secret: &str, key: &str) -> EnvVar {
    let selector = SecretKeySelector { name: secret.into(), key: key.into(), optional: None };
    let source = EnvVarSource { secret_key_ref: Some(selector), ..EnvVarSource::default() };
    EnvVar { name: name.into(), value: None, value_from: Some(source) }
}

/// Appends a variable, or replaces the variable of that name.
fn replace_env(container: &mut Container, variable: EnvVar) {
    let env = container.env.get_or_insert_default();
    match env.iter_mut().find(|present| present.name == variable.name) {
        Some(present) => *present = variable,
        None => env.push(variable),
    }
}

fn mount_secret(pod: &mut PodSpec, container: &mut Container, volume: &str, secret: &str, path: &str) {
    let mount = VolumeMount {
        name: volume.into(),
        mount_path: path.into(),
        read_only: Some(true),
        ..VolumeMount::default()
    };
    add_mount(container, mount);
    let source = SecretVolumeSource { secret_name: Some(secret.into()), ..SecretVolumeSource::default() };
    add_volume(pod, Volume { name: volume.into(), secret: Some(source), ..Volume::default() });
}
