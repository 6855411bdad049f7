//! Files of a sandbox. Relative paths are relative to its working folder.

use bytes::Bytes;
use holm_daytona_wire::files::{
    FileInfo, FileResult, Match, ReplaceRequest, ReplaceResult, SearchFilesResponse,
};
use reqwest::Method;

use crate::{Deletion, Download, Downloads, Result, Toolbox, Upload};

/// Whether what is in a folder goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recurse {
    /// A folder that is not empty stays, with an error.
    No,
    Yes,
}

/// What to change of a file; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Octal: `644`.
    pub mode: Option<String>,
    pub owner: Option<String>,
    pub group: Option<String>,
}

/// The files of a sandbox.
#[derive(Debug, Clone, Copy)]
pub struct Files<'toolbox> {
    pub(crate) toolbox: &'toolbox Toolbox,
}

impl Files<'_> {
    /// Writes files, with the folders above them; what is there is replaced. Contents are sent as they are read.
    pub async fn upload(&self, files: Vec<Upload>) -> Result<Vec<FileResult>> {
        crate::upload::upload(self.toolbox, files).await
    }

    /// Writes one file, with the folders above it; what is there is replaced.
    pub async fn write(&self, path: &str, content: impl Into<Bytes>) -> Result<()> {
        self.upload(vec![Upload::bytes(path, content)])
            .await
            .map(drop)
    }

    /// One file, as it comes.
    pub async fn download(&self, path: &str) -> Result<Download> {
        crate::download::download(self.toolbox, path).await
    }

    /// Several files, one after the other in one answer.
    pub async fn download_many(&self, paths: Vec<String>) -> Result<Downloads> {
        crate::download::download_many(self.toolbox, paths).await
    }

    /// One file as a whole; one that is larger is an error.
    pub async fn read(&self, path: &str, bytes_max: usize) -> Result<Vec<u8>> {
        self.download(path).await?.read_to_end(bytes_max).await
    }

    /// What is in a folder.
    pub async fn list(&self, path: &str) -> Result<Vec<FileInfo>> {
        let action = format!("list folder `{path}`");
        let call = self.toolbox.call(Method::GET, &["files"], action)?;
        call.query("path", path).list().await
    }

    pub async fn info(&self, path: &str) -> Result<FileInfo> {
        let action = format!("look at `{path}`");
        let call = self.toolbox.call(Method::GET, &["files", "info"], action)?;
        call.query("path", path).json().await
    }

    /// Makes a folder, with those above it. The mode is octal: `755`.
    pub async fn create_folder(&self, path: &str, mode: &str) -> Result<()> {
        let action = format!("create folder `{path}`");
        let call = self
            .toolbox
            .call(Method::POST, &["files", "folder"], action)?;
        let call = call.query("path", path).query("mode", mode);
        call.repeatable().done().await
    }

    /// What is there already stays, with a conflict.
    pub async fn rename(&self, source: &str, destination: &str) -> Result<()> {
        let action = format!("move `{source}` to `{destination}`");
        let call = self
            .toolbox
            .call(Method::POST, &["files", "move"], action)?;
        call.query("source", source)
            .query("destination", destination)
            .done()
            .await
    }

    /// What is gone already is success.
    pub async fn delete(&self, path: &str, recurse: Recurse) -> Result<Deletion> {
        let action = format!("delete `{path}`");
        let mut call = self.toolbox.call(Method::DELETE, &["files"], action)?;
        call = call.query("path", path);
        if recurse == Recurse::Yes {
            call = call.query("recursive", "true");
        }
        match call.done().await {
            Ok(()) => Ok(Deletion::Accepted),
            Err(error) if error.is_not_found() => Ok(Deletion::AlreadyGone),
            Err(error) => Err(error),
        }
    }

    pub async fn set_permissions(&self, path: &str, permissions: &Permissions) -> Result<()> {
        let action = format!("set the permissions of `{path}`");
        let segments = ["files", "permissions"];
        let mut call = self.toolbox.call(Method::POST, &segments, action)?;
        call = call.query("path", path);
        for (name, value) in [
            ("mode", &permissions.mode),
            ("owner", &permissions.owner),
            ("group", &permissions.group),
        ] {
            if let Some(value) = value {
                call = call.query(name, value);
            }
        }
        call.repeatable().done().await
    }

    /// Lines of files below a path that hold a text.
    pub async fn find_in_files(&self, path: &str, text: &str) -> Result<Vec<Match>> {
        let action = format!("search the files below `{path}`");
        let call = self.toolbox.call(Method::GET, &["files", "find"], action)?;
        call.query("path", path).query("pattern", text).list().await
    }

    /// Paths below a path whose last part matches a pattern such as `*.rs`.
    pub async fn search(&self, path: &str, pattern: &str) -> Result<Vec<String>> {
        let action = format!("search for files below `{path}`");
        let call = self
            .toolbox
            .call(Method::GET, &["files", "search"], action)?;
        let call = call.query("path", path).query("pattern", pattern);
        Ok(call.json::<SearchFilesResponse>().await?.files)
    }

    /// Replaces a text in files. Each file has its own outcome.
    pub async fn replace(&self, request: &ReplaceRequest) -> Result<Vec<ReplaceResult>> {
        let segments = ["files", "replace"];
        let call = self.toolbox.call(Method::POST, &segments, "replace text")?;
        call.body(request)?.list().await
    }
}
