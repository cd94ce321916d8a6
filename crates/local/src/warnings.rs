//! Collects the warnings of an API server: the `Warning` headers of its responses.

use std::sync::Arc;

use kube::Client;
use parking_lot::Mutex;

use crate::DEFAULT_NAMESPACE;

/// The code of warnings for people.
const FOR_PEOPLE: &str = "299";

/// The collected warnings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

// === impl Warnings ===

impl Warnings {
    /// Returns a client that collects the warnings in the responses.
    pub(crate) fn of(&self, client: &Client) -> Client {
        let (client, heard) = (client.clone(), self.0.clone());
        let service = tower::service_fn(move |request| {
            let (client, heard) = (client.clone(), heard.clone());
            async move {
                let answer = client.send(request).await?;
                let values =
                    answer.headers().get_all("warning").iter().filter_map(|value| value.to_str().ok());
                heard.lock().extend(values.filter_map(text));
                Ok::<_, kube::Error>(answer)
            }
        });
        Client::new(service, DEFAULT_NAMESPACE)
    }

    /// Returns the warnings since the last call, without duplicates.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for warning in std::mem::take(&mut *self.0.lock()) {
            if !all.contains(&warning) {
                all.push(warning);
            }
        }
        all
    }
}

/// Returns the text of a header such as `299 - "it is \"so\""`.
fn text(header: &str) -> Option<String> {
    // RFC 7234, section 5.5: code, agent, and the text in quotes. Kubernetes sends neither an agent nor a date.
    let mut parts = header.splitn(3, ' ');
    let (code, _agent, quoted) = (parts.next()?, parts.next()?, parts.next()?);
    let mut characters = quoted.strip_prefix('"').filter(|_| code == FOR_PEOPLE)?.chars();
    let mut text = String::new();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?),
            character => text.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_warning_is_what_its_quotes_hold() {
        assert_eq!(text(r#"299 - "spec.x: use \"y\" \\ z""#).as_deref(), Some(r#"spec.x: use "y" \ z"#));
        for header in ["", "299 -", r#"299 - "open"#, r#"199 - "for machines""#, "299 - bare"] {
            assert_eq!(text(header), None, "{header}");
        }
    }
}
