//! What clients of the API server have of it: its certificate authority, the administrator's token and the port. A named state
//! folder stores them, so that kubeconfigs and running clients still work after a restart.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use longboat_tls::{CertificateAuthority, TlsError, certificates};
use serde_json::{Value, json};

use crate::state::{StateDir, StateError, write_private};

const FILE: &str = "api-server.json";

/// How long a stored authority must still be valid: as long as the certificate of the server, which is new at each start.
const REMAINING: Duration = Duration::from_hours(365 * 24);

/// The identity of an API server.
pub(crate) struct Identity {
    pub(crate) authority: CertificateAuthority,
    pub(crate) token: String,
    /// The port of the earlier run, or 0.
    pub(crate) port: u16,
}

// === impl Identity ===

impl Identity {
    /// Returns the stored identity, or a new one if there is none, or none that can be used.
    pub(crate) fn of(state: &StateDir) -> Result<Self, TlsError> {
        let path = state.path().join(FILE);
        match stored(&path) {
            Ok(Some(identity)) => return Ok(identity),
            Ok(None) => {}
            Err(reason) => tracing::warn!(
                path = %path.display(), reason,
                "The API server gets a new certificate authority and a new token, because the stored ones cannot be used."
            ),
        }
        let authority = CertificateAuthority::new("longboat local")?;
        Ok(Self { authority, token: format!("{:032x}", rand::random::<u128>()), port: 0 })
    }

    /// Stores the identity of a server that listens on `port`, unless the folder is temporary.
    pub(crate) fn store(&self, state: &StateDir, port: u16) -> Result<(), StateError> {
        if state.is_temporary() {
            return Ok(());
        }
        let content = json!({
            "certificateAuthority": self.authority.pem(),
            "certificateAuthorityKey": self.authority.key_pem(),
            "token": self.token,
            "port": port,
        });
        write_private(&state.path().join(FILE), &format!("{content:#}\n"))
    }
}

fn stored(path: &Path) -> Result<Option<Identity>, String> {
    let content = match std::fs::read(path) {
        Ok(content) => content,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let content: Value = serde_json::from_slice(&content).map_err(|error| error.to_string())?;
    let text = |field: &str| content[field].as_str().filter(|text| !text.is_empty());
    let fields = (text("certificateAuthority"), text("certificateAuthorityKey"), text("token"));
    let (Some(certificate), Some(key), Some(token)) = fields else {
        return Err("expected the texts certificateAuthority, certificateAuthorityKey and token".to_owned());
    };
    let authority = CertificateAuthority::load(certificate, key).map_err(|error| error.to_string())?;
    let expires = certificates(certificate)
        .map_err(|error| error.to_string())?
        .first()
        .map_or(SystemTime::UNIX_EPOCH, |certificate| certificate.validity.not_after);
    if expires < SystemTime::now() + REMAINING {
        return Err("the certificate authority expires within a year".to_owned());
    }
    let port = content["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
    Ok(Some(Identity { authority, token: token.to_owned(), port }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use longboat_tls::Validity;

    use super::*;

    #[test]
    fn a_named_state_folder_stores_the_identity_and_an_unusable_one_is_replaced() {
        longboat_tls::install_default_provider();
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(Some(dir.path())).unwrap();
        let path = state.path().join(FILE);
        let first = Identity::of(&state).unwrap();
        first.store(&state, 4321).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let second = Identity::of(&state).unwrap();
        assert_eq!(
            (second.authority.pem(), second.token, second.port),
            (first.authority.pem(), first.token.clone(), 4321)
        );

        let validity = Validity::starting(SystemTime::now(), Duration::from_hours(24));
        let authority = CertificateAuthority::valid("longboat local", validity).unwrap();
        Identity { authority, token: first.token.clone(), port: 0 }.store(&state, 4321).unwrap();
        assert_ne!(Identity::of(&state).unwrap().token, first.token, "it expires soon");
        std::fs::write(&path, "{").unwrap();
        assert_ne!(Identity::of(&state).unwrap().token, first.token);
    }

    #[test]
    fn a_temporary_folder_stores_no_key() {
        longboat_tls::install_default_provider();
        let state = StateDir::open(None).unwrap();
        Identity::of(&state).unwrap().store(&state, 4321).unwrap();
        assert!(!state.path().join(FILE).exists());
    }
}
