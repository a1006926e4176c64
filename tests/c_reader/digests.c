/* Checks each file of the arguments as fuzz.c does, and reads it as a ModelProto. Prints a line per file: its name,
   the code and the offset of the error, and a digest of the values. `make processors` runs this program for several
   processors. */
#include "fuzz.c"

int main(int argc, char **argv) {
    int i;
    for (i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        long size = -1;
        uint8_t *bytes = NULL;
        uint64_t digest = UINT64_C(14695981039346656037); /* FNV-1a */
        outcome result;
        size_t i_byte;
        if (file != NULL && fseek(file, 0, SEEK_END) == 0) size = ftell(file);
        if (size >= 0) bytes = (uint8_t *)malloc((size_t)size + 1);
        if (bytes == NULL || fseek(file, 0, SEEK_SET) != 0 || fread(bytes, 1, (size_t)size, file) != (size_t)size) {
            perror(argv[i]);
            return 2;
        }
        fclose(file);
        LLVMFuzzerTestOneInput(bytes, (size_t)size);
        result = read_all(bytes, (size_t)size, OW_ModelProto, 0, 1);
        for (i_byte = 0; i_byte < result.text.size; i_byte++)
            digest = (digest ^ (unsigned char)result.text.bytes[i_byte]) * UINT64_C(1099511628211);
        printf("%s %d %llu %llx\n", argv[i], (int)result.error.code, (unsigned long long)result.error.offset,
               (unsigned long long)digest);
        free(result.text.bytes);
        free(bytes);
    }
    return 0;
}
