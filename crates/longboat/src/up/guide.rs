//! Suggests the next steps once services are ready. Pure functions.

use std::path::Path;

use owo_colors::OwoColorize;

use super::Service;
use crate::tree::group::Group;

/// Returns the addresses of everything, a request to the first service, and how to use the cluster from another terminal.
pub(crate) fn lines(services: &[Service], groups: &[Group], kubeconfig: &Path, took: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    if !services.is_empty() {
        lines.push(format!("Ready after {took}."));
    }
    for service in services {
        lines.push(format!("{} serves at {}", service.name.bold(), service.url.cyan()));
    }
    for group in groups {
        lines.push(format!("group {} shares {}: {}", group.name.bold(), group.url.cyan(), group.shares));
    }
    let groups = groups.iter().map(|group| (&group.url, &group.model));
    for (url, model) in services.iter().map(|service| (&service.url, &service.model)).take(1).chain(groups) {
        lines.extend(how_to_ask(url, model));
    }
    if let [_, others @ ..] = services {
        let models =
            others.iter().map(|service| format!("  {} serves the model {}", service.name, service.model));
        lines.extend(models);
    }
    lines.push(String::new());
    lines.push(format!("{}", "In another terminal:".bold()));
    lines.push(format!("  export KUBECONFIG={}", kubeconfig.display()));
    lines.push("  kubectl get llmisvc       # and all other kubectl commands".into());
    lines.push("  longboat doctor           # find out why something does not work".into());
    lines.push(String::new());
    lines
}

fn how_to_ask(url: &str, model: &str) -> Vec<String> {
    // The cluster has its own certificate authority.
    let is_secure = url.starts_with("https://");
    let (insecure, http) =
        if is_secure { ("-k ", ", http_client=httpx.Client(verify=False)") } else { ("", "") };
    let mut lines = vec![
        String::new(),
        format!("  curl {insecure}{url}/v1/chat/completions -H 'Content-Type: application/json' \\"),
        format!(
            "    -d '{{\"model\": \"{model}\", \"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}'"
        ),
        String::new(),
        "  from openai import OpenAI".into(),
        format!("  client = OpenAI(base_url=\"{url}/v1\", api_key=\"none\"{http})"),
        format!(
            "  print(client.chat.completions.create(model=\"{model}\", messages=[{{\"role\": \"user\", \"content\": \"Hello\"}}]))"
        ),
    ];
    if is_secure {
        lines.insert(4, "  import httpx".into());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_service_is_asked_and_all_are_named() {
        let service = |name: &str, url: &str| Service {
            name: name.into(),
            url: url.into(),
            model: format!("m/{name}"),
        };
        let services =
            [service("ns/a", "https://127.96.0.1:8000"), service("ns/b", "http://127.0.0.1:8080/ns/b")];
        let text = lines(&services, &[], Path::new("/tmp/k"), "4s").join("\n");
        let text = anstream::adapter::strip_str(&text).to_string();
        for part in [
            "Ready after 4s.\n",
            "ns/a serves at https://127.96.0.1:8000\n",
            "ns/b serves at http://127.0.0.1:8080/ns/b\n",
            "curl -k https://127.96.0.1:8000/v1/chat/completions",
            r#"{"model": "m/ns/a", "#,
            "import httpx\n",
            "verify=False",
            "ns/b serves the model m/ns/b",
            "export KUBECONFIG=/tmp/k",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches("curl").count(), 1, "{text}");
    }
}
