class Rehearse < Formula
  desc "Replay a PostgreSQL database's real traffic against a change"
  homepage "https://github.com/@REPOSITORY@"
  version "@VERSION@"
  license any_of: ["Apache-2.0", "MIT"]

  depends_on :linux

  on_intel do
    url "https://github.com/@REPOSITORY@/releases/download/v@VERSION@/rehearse-@VERSION@-x86_64-unknown-linux-musl.tar.gz"
    sha256 "@SHA256_X86_64@"
  end
  on_arm do
    url "https://github.com/@REPOSITORY@/releases/download/v@VERSION@/rehearse-@VERSION@-aarch64-unknown-linux-musl.tar.gz"
    sha256 "@SHA256_AARCH64@"
  end

  def install
    bin.install "bin/rehearse"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/rehearse"
    zsh_completion.install "share/zsh/vendor-completions/_rehearse"
    fish_completion.install "share/fish/vendor_completions.d/rehearse.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/rehearse --version")
  end
end
