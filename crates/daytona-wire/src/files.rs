//! Files of a sandbox.

wire_structs! {
    /// A file or folder.
    #[serde(rename_all = "camelCase")]
    pub struct FileInfo {
        pub name: String,
        pub size: u64,
        /// As `ls` shows it: `-rw-r--r--`.
        pub mode: String,
        /// The older form of `modifiedAt`.
        pub mod_time: String,
        pub modified_at: String,
        pub is_dir: bool,
        /// A number, as text.
        pub owner: String,
        /// A number, as text.
        pub group: String,
        /// Octal: `0644`.
        pub permissions: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub path: Option<String>,
    }

    /// A line of a file that holds what was searched.
    #[serde(rename_all = "camelCase")]
    pub struct Match {
        pub file: String,
        pub line: u64,
        pub content: String,
    }

    /// Paths whose last part matches.
    #[serde(rename_all = "camelCase")]
    pub struct SearchFilesResponse {
        pub files: Vec<String>,
    }

    /// `POST /files/replace`.
    #[serde(rename_all = "camelCase")]
    pub struct ReplaceRequest {
        pub files: Vec<String>,
        pub pattern: String,
        pub new_value: String,
    }

    /// What became of one file.
    #[serde(rename_all = "camelCase")]
    pub struct ReplaceResult {
        pub file: String,
        pub success: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
    }

    /// `POST /files/bulk-download`.
    #[serde(rename_all = "camelCase")]
    pub struct FilesDownloadRequest {
        pub paths: Vec<String>,
    }

    /// The answer of `POST /files/bulk-upload`.
    #[serde(rename_all = "camelCase")]
    pub struct UploadFilesResponse {
        /// Not empty means that the status is 400.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub errors: Vec<String>,
        pub files: Vec<FileResult>,
    }

    /// A file that was written.
    #[serde(rename_all = "camelCase")]
    pub struct FileResult {
        pub path: String,
        pub bytes: u64,
    }

    /// The answer of `POST /files/upload-v2`.
    #[serde(rename_all = "camelCase")]
    pub struct UploadedFile {
        pub name: String,
        pub path: String,
        #[serde(rename = "type")]
        pub kind: String,
    }
}
