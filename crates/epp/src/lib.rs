//! The endpoint picker as a service: watching pools and pods, scraping metrics, answering ext_proc.
