function __vfs_complete
    set -l typed (commandline -ct)
    set -l found (vfs completion fish -- (commandline -opc)[2..] "$typed" 2>/dev/null)
    if count $found >/dev/null
        string join \n -- $found
        return
    end
    set -l before (string match -r -- '^--[^=]*=' "$typed")
    for path in (__fish_complete_path (string replace -- "$before" '' "$typed"))
        echo -- "$before$path"
    end
end
complete -c vfs -f -a '(__vfs_complete)'
