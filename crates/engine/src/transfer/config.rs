//! vLLM's `--kv-transfer-config`, and the environment variables that belong to it.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    str::FromStr,
    time::Duration,
};

use longboat_accept::KV_TOKEN_VARIABLE;
use longboat_serving::ArgsError;
use serde_json::Value;

/// The only connector that this engine supports.
const CONNECTOR: &str = "NixlConnector";
/// vLLM's variables for the address on which other engines request blocks.
const HOST: &str = "VLLM_NIXL_SIDE_CHANNEL_HOST";
const PORT: &str = "VLLM_NIXL_SIDE_CHANNEL_PORT";
/// The lease of blocks without `kv_lease_duration`. vLLM's decoders extend a lease of 30 seconds while
/// their request waits. The decoders of this engine do not, and a busy one may fetch late.
const LEASE_DURATION: Duration = Duration::from_mins(8);
/// The shortest allowed secret. A shorter one could be guessed.
const MIN_TOKEN_BYTES: usize = 16;

/// The halves of a request that an engine may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Producer,
    Consumer,
    Both,
}

/// The handling of a request whose blocks cannot be fetched (`kv_load_failure_policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadFailurePolicy {
    /// The request fails. This is vLLM's default.
    Fail,
    /// The prompt is computed here.
    Recompute,
}

/// The fields of `--kv-transfer-config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KvTransferConfig {
    pub(crate) role: Role,
    pub(crate) load_failure_policy: LoadFailurePolicy,
    pub(crate) engine_id: Option<String>,
    /// How long blocks are leased to a decoder (`kv_lease_duration`).
    pub(crate) lease_duration: Duration,
    /// Fields that vLLM knows and that have no effect here.
    pub(crate) ignored: Vec<String>,
}

/// The secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) String);

/// The connector's configuration with its address and its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) config: KvTransferConfig,
    /// The address on which other engines request blocks. It is a loopback address.
    pub(crate) address: SocketAddr,
    pub(crate) token: Token,
}

// === impl Role ===

impl Role {
    pub(crate) fn produces(self) -> bool {
        self != Self::Consumer
    }

    pub(crate) fn consumes(self) -> bool {
        self != Self::Producer
    }
}

// === impl Token ===

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

// === impl KvTransferConfig ===

impl FromStr for KvTransferConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let fields = value.as_object().ok_or("expected a JSON object")?;
        let (mut connector, mut role, mut ignored) = (None, None, Vec::new());
        let (mut policy, mut engine_id, mut lease_duration) = (LoadFailurePolicy::Fail, None, LEASE_DURATION);
        for (name, value) in fields {
            let wrong = |expected: &str| format!("{name}: {value} is not {expected}");
            match (name.as_str(), value.as_str()) {
                (_, None) if value.is_null() => {}
                ("kv_connector", Some(name)) => connector = Some(name),
                ("kv_role", Some("kv_producer")) => role = Some(Role::Producer),
                ("kv_role", Some("kv_consumer")) => role = Some(Role::Consumer),
                ("kv_role", Some("kv_both")) => role = Some(Role::Both),
                ("kv_role", _) => return Err(wrong("\"kv_producer\", \"kv_consumer\" or \"kv_both\"")),
                ("kv_load_failure_policy", Some("fail")) => policy = LoadFailurePolicy::Fail,
                ("kv_load_failure_policy", Some("recompute")) => policy = LoadFailurePolicy::Recompute,
                ("kv_load_failure_policy", _) => return Err(wrong("\"fail\" or \"recompute\"")),
                ("engine_id", Some(id)) => engine_id = Some(id.to_owned()),
                ("kv_connector" | "engine_id", _) => return Err(wrong("text")),
                ("kv_connector_extra_config", _) => {
                    let extra = value.as_object().ok_or_else(|| wrong("an object"))?;
                    for (key, value) in extra {
                        if key == "kv_lease_duration" {
                            // So few that the end of the lease is a time that the clock can have.
                            let seconds = value
                                .as_u64()
                                .and_then(|seconds| NonZeroU32::try_from(u32::try_from(seconds).ok()?).ok());
                            let expected =
                                || format!("{name}.{key}: {value} is not a positive number of seconds");
                            lease_duration = Duration::from_secs(seconds.ok_or_else(expected)?.get().into());
                        } else {
                            ignored.push(format!("{name}.{key}"));
                        }
                    }
                }
                (
                    "kv_buffer_device"
                    | "kv_buffer_size"
                    | "kv_rank"
                    | "kv_parallel_size"
                    | "kv_ip"
                    | "kv_port"
                    | "enable_permute_local_kv",
                    _,
                ) => ignored.push(name.clone()),
                _ => return Err(format!("unknown field `{name}`")),
            }
        }
        match connector {
            Some(CONNECTOR) => {}
            Some(other) => {
                return Err(format!("the connector `{other}` is not supported; {CONNECTOR} is"));
            }
            None => return Err(format!("kv_connector is missing; {CONNECTOR} is supported")),
        }
        let role = role.ok_or("kv_role is missing; expected kv_producer, kv_consumer or kv_both")?;
        Ok(Self { role, load_failure_policy: policy, engine_id, lease_duration, ignored })
    }
}

// === impl Settings ===

impl Settings {
    /// Reads the remaining settings from variables. `host` is the address of the engine's server.
    pub(crate) fn new(
        config: KvTransferConfig,
        host: IpAddr,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ArgsError> {
        let invalid = |name: &str, reason: String| ArgsError::Invalid { flag: name.to_owned(), reason };
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let host = match set(HOST) {
            None => host,
            Some(text) => text.parse().map_err(|error| invalid(HOST, format!("`{text}`: {error}")))?,
        };
        if !host.is_loopback() {
            let reason = format!(
                "KV caches are transferred unencrypted, so only loopback addresses are allowed; the \
                 address is {host}: set --host or {HOST} to an address such as 127.0.0.1"
            );
            return Err(invalid("--kv-transfer-config", reason));
        }
        let port = match set(PORT) {
            None => 5600,
            Some(text) => text.parse().map_err(|_| invalid(PORT, format!("`{text}` is not a port")))?,
        };
        let token = set(KV_TOKEN_VARIABLE).filter(|token| token.len() >= MIN_TOKEN_BYTES).ok_or_else(|| {
            let reason = format!(
                "engines that exchange KV caches need a shared secret: set the variable {KV_TOKEN_VARIABLE} of all \
                 engines to the same random text of at least {MIN_TOKEN_BYTES} characters"
            );
            invalid("--kv-transfer-config", reason)
        })?;
        Ok(Self { config, address: SocketAddr::new(host, port), token: Token(token) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<KvTransferConfig, String> {
        text.parse()
    }

    #[test]
    fn unsupported_connectors_and_fields_are_refused_by_name() {
        let config = parse(
            r#"{"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu",
                "kv_load_failure_policy": "recompute", "engine_id": null,
                "kv_connector_extra_config": {"kv_lease_duration": 3, "backends": ["UCX"]}}"#,
        );
        let expected = KvTransferConfig {
            role: Role::Both,
            load_failure_policy: LoadFailurePolicy::Recompute,
            engine_id: None,
            lease_duration: Duration::from_secs(3),
            ignored: vec!["kv_buffer_device".into(), "kv_connector_extra_config.backends".into()],
        };
        assert_eq!(config, Ok(expected));
        for (text, words) in [
            (r#"{"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}"#, "`OffloadingConnector`"),
            (r#"{"kv_connector": "NixlConnector"}"#, "kv_role is missing"),
            (r#"{"kv_role": "kv_both"}"#, "kv_connector is missing"),
            (r#"{"kv_connector": "NixlConnector", "kv_role": "both"}"#, "kv_role: \"both\" is not"),
            (r#"{"kv_connector": "NixlConnector", "kv_role": "kv_both", "x": 1}"#, "unknown field `x`"),
            (
                r#"{"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"kv_lease_duration": 0}}"#,
                "kv_connector_extra_config.kv_lease_duration: 0 is not a positive number of seconds",
            ),
            ("[]", "expected a JSON object"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn transfers_need_a_secret_and_a_loopback_address() {
        let both = parse(r#"{"kv_connector": "NixlConnector", "kv_role": "kv_both"}"#).unwrap();
        let settings = |host: &str, variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            Settings::new(both.clone(), host.parse().unwrap(), &variable).map_err(|error| error.to_string())
        };
        let secret = (KV_TOKEN_VARIABLE, "0123456789abcdef");
        let settings_of_port = settings("127.0.0.9", &[secret, (PORT, "7")]).unwrap();
        assert_eq!(settings_of_port.address, "127.0.0.9:7".parse().unwrap());
        assert_eq!(settings("127.0.0.1", &[secret]).unwrap().address.port(), 5600);
        assert!(settings("0.0.0.0", &[secret]).unwrap_err().contains("only loopback addresses are allowed"));
        assert!(
            settings("127.0.0.1", &[(KV_TOKEN_VARIABLE, "short")]).unwrap_err().contains(KV_TOKEN_VARIABLE)
        );
        assert!(
            settings("127.0.0.1", &[secret, (PORT, "70000")]).unwrap_err().contains("`70000` is not a port")
        );
    }
}
