/* Runs a fuzz target over the files of a directory, each in memory of exactly its size: replay_NAME DIRECTORY... */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

static int replay_file(int dir, const char *name)
{
        int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
        struct stat st;
        uint8_t *data = NULL;
        int r = -1;

        if (fd < 0 || fstat(fd, &st) < 0)
                goto out;
        if (!S_ISREG(st.st_mode)) {
                r = 0;
                goto out;
        }
        data = malloc(st.st_size ? (size_t)st.st_size : 1);
        if (!data || read(fd, data, (size_t)st.st_size) != st.st_size)
                goto out;
        LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
        r = 1;
out:
        free(data);
        if (fd >= 0)
                close(fd);
        return r;
}

static int replay_dir(const char *path)
{
        DIR *dir = opendir(path);
        struct dirent *entry;
        int n = 0;

        if (!dir)
                return -1;
        while ((entry = readdir(dir))) {
                int r = replay_file(dirfd(dir), entry->d_name);

                if (r < 0) {
                        perror(entry->d_name);
                        n = -1;
                        break;
                }
                n += r;
        }
        closedir(dir);
        return n;
}

int main(int argc, char **argv)
{
        for (int i = 1; i < argc; i++) {
                int n = replay_dir(argv[i]);

                if (n <= 0) {
                        fprintf(stderr, "replay: no inputs in %s\n", argv[i]);
                        return 1;
                }
                printf("%s: %d inputs\n", argv[i], n);
        }
        return 0;
}
