//! Every port that `up` listens on, and what it answers to web pages of other sites.

use std::{collections::BTreeMap, fs, net::SocketAddr, path::PathBuf, time::Duration};

use crate::{http::block, local_cluster::LocalCluster, processes, tools, wait::until};

/// The most time that a port gets to answer. Those that serve no web pages may stay silent.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the listening addresses of the processes of a world, with the command line of each process.
fn listeners(world: &LocalCluster) -> BTreeMap<SocketAddr, String> {
    let mut pids = processes::with_variable(&world.node_id());
    pids.push(world.running.pid());
    let mut sockets = BTreeMap::new();
    for pid in pids {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        for target in files.filter_map(|file| fs::read_link(file.path()).ok()).map(PathBuf::into_os_string) {
            let target = target.to_str().unwrap_or_default();
            let inode = target.strip_prefix("socket:[").and_then(|target| target.strip_suffix(']'));
            sockets.extend(inode.map(|inode| (inode.to_owned(), processes::command_line(pid))));
        }
    }
    let mut found = BTreeMap::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // 0A is the state LISTEN.
            if fields[3] == "0A"
                && let Some(command) = sockets.get(fields[9])
            {
                found.insert(address(fields[1]), command.clone());
            }
        }
    }
    found
}

/// Reads an address of /proc/net: the IP in words of four bytes in the machine's order, and the port.
fn address(text: &str) -> SocketAddr {
    let (ip, port) = text.split_once(':').unwrap();
    let word = |at: usize| u32::from_str_radix(&ip[at..at + 8], 16).unwrap().to_ne_bytes();
    let port = u16::from_str_radix(port, 16).unwrap();
    if ip.len() == 8 {
        return SocketAddr::from((word(0), port));
    }
    let bytes: Vec<u8> = (0..32).step_by(8).flat_map(word).collect();
    SocketAddr::from((<[u8; 16]>::try_from(bytes).unwrap(), port))
}

/// Sends a request of a page, and returns the status. `None` if the port has no HTTP/1.1, as that of the picker for gateways,
/// where gRPC needs HTTP/2.
fn status(url: &str, host: &str, origin: Option<&str>) -> Option<u16> {
    longboat_tls::install_default_provider();
    block(async {
        let client = reqwest::Client::builder().no_proxy().danger_accept_invalid_certs(true);
        let mut request =
            client.http1_only().timeout(PATIENCE).build().unwrap().get(url).header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        request.send().await.ok().map(|response| response.status().as_u16())
    })
}

#[test]
fn no_port_of_up_answers_a_page_of_another_site() {
    let example = tools::root().join("examples/prefill-decode");
    let world = LocalCluster::start(&[example.to_str().unwrap()]);
    // The gateway, the API server, the dashboard, two engines, a sidecar, three ports of a picker, and their Services.
    let all = until("all listeners", || Some(listeners(&world)).filter(|all| all.len() >= 12));
    let mut guarded = 0;
    for (address, command) in &all {
        assert!(address.ip().is_loopback(), "{address} is no loopback address: {command}");
        let own = address.to_string();
        for scheme in ["http", "https"] {
            let at = |path: &str| format!("{scheme}://{address}{path}");
            // The ports refuse pages, and not everybody.
            let welcomes = ["/", "/metrics", "/version"].map(|path| status(&at(path), &own, None));
            if welcomes == [None; 3] {
                continue;
            }
            assert!(welcomes.contains(&Some(200)), "{}: {welcomes:?}: {command}", at(""));
            guarded += 1;
            for path in ["/", "/metrics", "/version", "/v1/models", "/debug/decisions"] {
                for (host, origin) in [
                    ("evil.example", None),
                    ("10.1.2.3", None),
                    (own.as_str(), Some("https://evil.example")),
                    (&own, Some("http://10.1.2.3")),
                    (&own, Some("null")),
                ] {
                    let answer = status(&at(path), host, origin);
                    assert!(
                        matches!(answer, Some(403 | 421)),
                        "{} answers {answer:?} to host {host} and origin {origin:?}: {command}",
                        at(path)
                    );
                }
            }
        }
    }
    assert!(guarded >= 8, "{all:?}");
}
